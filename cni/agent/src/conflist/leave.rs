// SPDX-License-Identifier: Apache-2.0
//! Decides what to write and remove so that no configuration names our plugin any more, whoever put it there and whichever mode that was.

use super::copy;
use super::document::Document;
use super::plan::{FileMode, Step};
use super::scan::{DirectorySnapshot, parsed};
use super::splice;
use crate::settings::ChainSettings;

/// Steps of the uninstall. Files that hold nothing but our plugin, and lists of our own, go as a whole; a file that cannot be read stays as
/// it is.
#[must_use]
pub fn steps(chain: &ChainSettings, now: &DirectorySnapshot) -> Vec<Step> {
    now.files.keys().filter_map(|name| step(chain, now, name)).collect()
}

/// Step of the uninstall for one file.
pub(super) fn step(chain: &ChainSettings, now: &DirectorySnapshot, name: &str) -> Option<Step> {
    let text = now.text(name)?;
    let document = parsed(name, text).ok()?;
    let alone = document.others().is_empty();
    let is_removed = match &document {
        Document::Single(_) => alone,
        Document::List(_) => (alone && !document.ours().is_empty()) || goes(chain, now, name, &document),
    };
    if is_removed {
        return Some(Step::Remove { name: name.to_owned() });
    }
    let text = splice::without_entries(text)?;
    Some(Step::Write { name: name.to_owned(), text, mode: FileMode::Of(name.to_owned()) })
}

/// True if a list is a copy that the uninstall removes whole. Two kinds stay, since without them no pod of the node may start: a list that only its
/// name marks as a copy, and a copy whose path is Multus' `clusterNetwork`.
fn goes(chain: &ChainSettings, now: &DirectorySnapshot, name: &str, document: &Document<'_>) -> bool {
    let path = format!("/{name}\"");
    let is_referred_to =
        || now.files.keys().filter_map(|name| now.text(name)).any(|text| text.contains(&path));
    if copy::owner(now, name).is_some() {
        return !is_referred_to();
    }
    copy::is_copy(chain, now, name, document) && copy::is_needless(chain, now)
}

/// Files in which Multus has our plugin inline as a network: nobody but their owner knows what is to be there instead.
#[must_use]
pub fn inline(now: &DirectorySnapshot) -> Vec<String> {
    let is_ours = |inline: &str| Document::parse(inline).is_ok_and(|is| is.others().is_empty());
    let has_ours = |name: &&String| {
        let document = now.text(name).and_then(|text| Document::parse(text).ok());
        document.is_some_and(|document| document.inline().into_iter().any(is_ours))
    };
    now.files.keys().filter(has_ours).cloned().collect()
}

/// Malformed files that name our plugin: they cannot be edited.
#[must_use]
pub fn unreadable(now: &DirectorySnapshot) -> Vec<String> {
    let names_us = |name: &&String| {
        now.text(name).is_some_and(|text| text.contains(super::OUR_TYPE) && Document::parse(text).is_err())
    };
    now.files.keys().filter(names_us).cloned().collect()
}
