// SPDX-License-Identifier: Apache-2.0
//! A list of our own that repeats the primary's, which stays as it is.

use protocol::mutant;

use super::{Mode, NotRight, OWNED, Plan, Planned, Step, Wish, known_at, nothing};
use crate::conflist::document::Document;
use crate::conflist::scan::{Snapshot, list_name};

impl Wish<'_> {
    /// A list of our own that repeats the primary's, with our entry.
    pub(super) fn owned(&self, now: &Snapshot) -> Planned {
        let ours = if self.chain.owned_name.is_empty() { OWNED } else { &self.chain.owned_name };
        if list_name(ours).as_deref() != Some(ours) || ours.contains('/') {
            return Err(nothing(NotRight::Name(ours.to_owned())));
        }
        let primary = match self.named(now)? {
            Some(name) => name,
            None => now
                .usable()
                .find(|(name, document)| *name != ours && !document.others().is_empty())
                .map(|(name, _)| name.to_owned())
                .ok_or_else(|| nothing(NotRight::NoPrimary))?,
        };
        known_at(now, |denied| denied <= primary.as_str() || denied == ours)?;
        let text = self.merged(now, &primary)?;
        if now.text(ours).is_some_and(|text| Document::parse(text).is_ok_and(|is| is.ours().is_empty()))
            && !self.made.contains(ours)
        {
            return Err(nothing(NotRight::Foreign(ours.to_owned())));
        }
        let write = Step::Write { name: ours.to_owned(), text: text.clone(), mode: Mode::Ours };
        let is_there = now.text(ours).is_some_and(|is| is == text || mutant!("primary-not-followed"));
        let steps = if is_there { Vec::new() } else { vec![write] };
        let first = now.usable().map(|(name, _)| name).find(|name| *name < ours);
        let not_first =
            |first: &str| NotRight::OwnedNotFirst { first: first.to_owned(), ours: ours.to_owned() };
        Ok(Plan { steps, then: first.map_or_else(|| Ok(ours.to_owned()), |first| Err(not_first(first))) })
    }
}
