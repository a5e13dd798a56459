// SPDX-License-Identifier: Apache-2.0
//! Lists of our own that repeat the primary's: their names, and how one is recognized whatever its name is. The primary may have changed
//! since, so their contents do not tell.

use serde_json::Value;

use super::document::{Document, Members};
use super::scan::{ConfigFormat, DirectorySnapshot, parsed};
use super::splice;
use crate::settings::ChainSettings;

/// Default name of a list that we own.
pub const OWNED: &str = "02-istio-cni.conflist";
/// The key of our entry that says which file its list repeats. The plugin passes over it, ours and upstream's.
pub const MARK: &str = "millrace_copy_of";

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

/// The same of a file's text.
#[must_use]
pub fn marked_in(text: &str) -> Option<String> {
    mark(&Document::parse(text).ok()?)
}

/// True if a list is a copy of the primary's. One that does not say so is another installer's, and is known by its name, or an earlier agent's.
#[must_use]
pub fn is_copy(chain: &ChainSettings, now: &DirectorySnapshot, name: &str, document: &Document<'_>) -> bool {
    let named = name == OWNED || (chain.chained && chain.owned && name == chain.owned_name);
    (named && !document.ours().is_empty()) || owner(now, name).is_some()
}

/// True if a runtime would find a network without any copy.
#[must_use]
pub fn is_needless(chain: &ChainSettings, now: &DirectorySnapshot) -> bool {
    now.usable()
        .any(|(name, document)| !document.others().is_empty() && !is_copy(chain, now, name, &document))
}

/// Copies whose owner's file is gone: nothing of ours is a network without it.
#[must_use]
pub fn orphans(now: &DirectorySnapshot) -> Vec<String> {
    let is_orphan = |document: &Document<'_>| mark(document).is_some_and(|owner| now.is_gone(&owner));
    now.usable().filter(|(_, document)| is_orphan(document)).map(|(name, _)| name.to_owned()).collect()
}

/// Ending of the stem of a copy's name.
const ENDING: &str = "-istio-cni";
/// Number of names for a copy of one file.
const NAMES: usize = 10;

/// Names for a copy of a `.conf` or `.json`, the preferred one first. Each sorts before `owner`, since `-` sorts before `.`, and after `before`, the last
/// network that runtimes read before it.
#[must_use]
pub fn names(owner: &str, before: Option<&str>) -> Vec<String> {
    let stem = owner.rsplit_once('.').map_or(owner, |(stem, _)| stem);
    let stems = [Some(stem), before].into_iter().flatten();
    let all = stems.flat_map(|stem| {
        let first = format!("{stem}{ENDING}.conflist");
        [first].into_iter().chain((1..NAMES).map(move |number| format!("{stem}{ENDING}-{number}.conflist")))
    });
    let is_between =
        |name: &String| name.as_str() < owner && before.is_none_or(|before| before < name.as_str());
    all.filter(is_between).collect()
}

/// Name that earlier agents gave the list made of a `.conf`, where another list had the owner's name.
#[must_use]
pub fn aside(owner: &str) -> String {
    format!("{owner}.conflist")
}

/// Lists that earlier agents, upstream's as well, made of a `.conf` and put in its place, and whose owner has written it again.
#[must_use]
pub fn superseded(now: &DirectorySnapshot) -> Vec<String> {
    let is_superseded = |(name, is): &(&str, Document<'_>)| mark(is).is_none() && owner(now, name).is_some();
    now.usable().filter(is_superseded).map(|(name, _)| name.to_owned()).collect()
}

/// The file that a list of our own is made of: the one of its mark, or the one whose place an earlier agent gave it, if that is there again.
#[must_use]
pub fn owner(now: &DirectorySnapshot, name: &str) -> Option<String> {
    let read = |name: &str| now.text(name).and_then(|text| parsed(name, text).ok());
    let list = read(name)?;
    if let Some(owner) = mark(&list) {
        return Some(owner);
    }
    let is_single = |name: &&str| ConfigFormat::of(name) == Some(ConfigFormat::Single);
    let is_made = |owner: &&str| read(owner).is_some_and(|single| is_made_of(&list, &single));
    // `X.conflist` of `X.conf`, and `X.conf.conflist` or `X.json.conflist` where a foreign list had that name or sorted before it.
    let places = [name.strip_suffix("list"), name.strip_suffix(".conflist")].into_iter().flatten();
    let place = places.filter(is_single).find(|owner| !list.ours().is_empty() && is_made(owner));
    // A copy without our entry: a foreign writer removed it, and the mark with it.
    let stripped = || {
        let stem = name.rsplit_once(ENDING)?.0;
        let owners = now.files.keys().map(String::as_str).filter(|owner| owner.starts_with(stem));
        owners
            .filter(is_single)
            .find(|owner| names(owner, None).iter().any(|one| one == name) && is_made(owner))
    };
    place.or_else(stripped).map(str::to_owned)
}

/// True if an agent made `list` of `single`: it has that form, and the same plugin or network. A foreign list has another form.
fn is_made_of(list: &Document<'_>, single: &Document<'_>) -> bool {
    let (Document::List(of), Document::Single(_)) = (list, single) else { return false };
    let same_network = list.network().is_some() && list.network() == single.network();
    splice::is_upgraded(of) && (same_network || list.others() == single.others())
}

/// The file of the network that Multus, configured by the `.conf` `name`, has inline. Its entrypoint takes the first file beside `00-multus.conf*` for
/// the network, so a copy of Multus' own file would end up in Multus' configuration; it follows changes of that network's file.
#[must_use]
pub fn inlined(now: &DirectorySnapshot, name: &str) -> Option<String> {
    let multus = now.valid(name).ok().filter(|is| matches!(is, Document::Single(_)))?;
    let kind = multus.others().into_iter().flatten().next()?;
    let networks: Vec<_> =
        multus.inline().into_iter().filter_map(|text| Document::parse(text).ok()?.network()).collect();
    let is_inline = |(other, document): &(&str, Document<'_>)| {
        *other != name
            && !document.others().is_empty()
            && owner(now, other).is_none()
            && document.network().is_some_and(|network| networks.contains(&network))
    };
    let found = now.usable().find(is_inline).map(|(other, _)| other.to_owned());
    found.filter(|_| kind.starts_with("multus"))
}
