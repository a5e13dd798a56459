// SPDX-License-Identifier: Apache-2.0
//! Lists of our own that repeat the primary's: how one is told from the primary's, whatever it is called. The primary may have changed
//! since, so their contents do not tell.

use serde_json::Value;

use super::document::{Document, Members};
use super::scan::DirectorySnapshot;
use crate::settings::ChainSettings;

/// Default name of a list that we own.
pub const OWNED: &str = "02-istio-cni.conflist";
/// The key of our entry that says which file its list repeats. The plugin passes over it, ours and upstream's.
const MARK: &str = "millrace_copy_of";

/// Our entry for a list that copies `primary`.
#[must_use]
pub fn marked(entry: &Value, primary: &str) -> Value {
    let mut entry = entry.clone();
    if let Some(keys) = entry.as_object_mut() {
        keys.insert(MARK.to_owned(), primary.into());
    }
    entry
}

/// Name of the file that a list says it copies.
#[must_use]
pub fn mark(document: &Document<'_>) -> Option<String> {
    document.ours().into_iter().find_map(|entry| Members::parse(entry).ok()?.text(MARK))
}

/// True if a list is a copy of the primary's. One that does not say so is another installer's, and is known by its name.
#[must_use]
pub fn is_copy(chain: &ChainSettings, name: &str, document: &Document<'_>) -> bool {
    let named = name == OWNED || (chain.chained && chain.owned && name == chain.owned_name);
    !document.ours().is_empty() && (named || mark(document).is_some())
}

/// True if a runtime would find a network without any copy.
#[must_use]
pub fn is_needless(chain: &ChainSettings, now: &DirectorySnapshot) -> bool {
    now.usable().any(|(name, document)| !document.others().is_empty() && !is_copy(chain, name, &document))
}
