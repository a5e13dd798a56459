// SPDX-License-Identifier: Apache-2.0
//! A list of our own that repeats the primary's, which is the primary's alone.

use super::{DesiredConflist, FileMode, NotRight, Plan, Planned, Step, known_at, nothing};
use crate::conflist::document::Document;
use crate::conflist::multus::Multus;
use crate::conflist::scan::{DirectorySnapshot, list_name};
use crate::conflist::{copy, unused};

impl DesiredConflist<'_> {
    /// Plans a list of our own: a copy of the primary's with our entry.
    pub(super) fn owned(&self, now: &DirectorySnapshot) -> Planned {
        let ours = self.chain.owned_name.as_str();
        if list_name(ours).as_deref() != Some(ours) || ours.contains('/') {
            return Err(nothing(NotRight::Name(ours.to_owned())));
        }
        let others = |(name, document): &(&str, Document<'_>)| {
            *name != ours
                && !document.others().is_empty()
                && !unused::is_unused(document)
                && !copy::is_copy(self.chain, now, name, document)
        };
        let primary = match self.named(now)? {
            Some(name) => name,
            None => now
                .usable()
                .find(others)
                .map(|(name, _)| name.to_owned())
                .ok_or_else(|| nothing(NotRight::NoPrimary))?,
        };
        known_at(now, |denied| denied <= primary.as_str() || denied == ours)?;
        let text = self.merged(now, &primary, &copy::marked(self.entry, &primary))?;
        if now.text(ours).is_some_and(|text| Document::parse(text).is_ok_and(|is| is.ours().is_empty()))
            && !self.made.contains(ours)
        {
            return Err(nothing(NotRight::Foreign(ours.to_owned())));
        }
        let is_there = now.text(ours).is_some_and(|is| is == text);
        let write = Step::Write { name: ours.to_owned(), text, mode: FileMode::Ours };
        let mut steps = if is_there && self.has_our_mode(now, ours) { Vec::new() } else { vec![write] };
        let preempts = |(name, document): &(&str, Document<'_>)| {
            *name < ours && !copy::is_copy(self.chain, now, name, document)
        };
        if let Some((first, document)) = now.usable().find(preempts) {
            steps.extend(self.brought_up(now, ours));
            // Multus may be told to hand on to our list.
            let then = match Multus::of(now, &document).map(|multus| multus.calls(now, ours)) {
                Some(Ok(())) => Ok(ours.to_owned()),
                Some(Err(why)) => Err(NotRight::Multus { file: first.to_owned(), why: why.into() }),
                None => Err(NotRight::OwnedNotFirst { first: first.to_owned(), ours: ours.to_owned() }),
            };
            return Ok(Plan { steps, then });
        }
        steps.extend(self.taken_out(now, ours));
        Ok(Plan { steps, then: Ok(ours.to_owned()) })
    }
}
