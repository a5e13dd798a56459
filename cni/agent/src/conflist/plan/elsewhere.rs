// SPDX-License-Identifier: Apache-2.0
//! Stale entries of ours in other files: of another mode, another name, another installer. These steps come after the one that writes the
//! new entry, so that pods are redirected at every moment.

use super::{DesiredConflist, FileMode, Step};
use crate::conflist::document::Document;
use crate::conflist::scan::DirectorySnapshot;
use crate::conflist::{copy, leave};

impl DesiredConflist<'_> {
    /// Takes them out, but for another installer's copy of the primary's while there is no other network.
    pub(super) fn taken_out(&self, now: &DirectorySnapshot, target: &str) -> Vec<Step> {
        let needless = copy::is_needless(self.chain, now);
        let orphans = copy::orphans(now);
        let goes = |(name, document): &(&str, Document<'_>)| {
            let is_kept = !needless && copy::is_copy(self.chain, now, name, document);
            *name != target && (!is_kept || orphans.iter().any(|orphan| orphan == name))
        };
        now.usable().filter(goes).filter_map(|(name, _)| leave::step(self.chain, now, name)).collect()
    }

    /// Takes copies and files of our plugin alone out; where runtimes read a list of others before ours, an entry in it says the same as ours.
    pub(super) fn brought_up(&self, now: &DirectorySnapshot, target: &str) -> Vec<Step> {
        // A file of our plugin alone would be a network without addresses, should it become the first one.
        let goes = |name: &str, document: &Document<'_>| {
            name != target && (document.others().is_empty() || copy::is_copy(self.chain, now, name, document))
        };
        let mut steps = Vec::new();
        let mut handed_on = true;
        for (name, document) in now.usable() {
            if goes(name, &document) {
                steps.push(Step::Remove { name: name.to_owned() });
            } else if handed_on {
                handed_on = delegates(&document);
                if name != target && !document.ours().is_empty() {
                    steps.extend(self.update(now, name));
                }
            }
        }
        steps
    }

    fn update(&self, now: &DirectorySnapshot, name: &str) -> Option<Step> {
        let text = self.merged(now, name, self.entry).ok()?;
        let differs = now.text(name) != Some(text.as_str());
        differs.then(|| Step::Write { name: name.to_owned(), text, mode: FileMode::Of(name.to_owned()) })
    }
}

/// Multus hands on to other files: the one that we were told to use may be one of them. With configurations inline it reads none, so one of
/// them has to have our entry.
pub(super) fn delegates(document: &Document<'_>) -> bool {
    let first = document.others().first().cloned().flatten();
    let has_ours = |text: &&str| Document::parse(text).is_ok_and(|inline| !inline.ours().is_empty());
    let inline = document.inline();
    first.is_some_and(|kind| kind.starts_with("multus")) && (inline.is_empty() || inline.iter().any(has_ours))
}
