// SPDX-License-Identifier: Apache-2.0
//! Our entry in the primary's own list. A `.conf` or `.json` cannot hold it: a copy as a list of our own is read before that file, which stays its
//! owner's.

use super::{DesiredConflist, FileMode, NotRight, Plan, Planned, Step, Stopped, known_at, nothing};
use crate::conflist::multus::Multus;
use crate::conflist::scan::{ConfigFormat, DirectorySnapshot, Unusable};
use crate::conflist::{copy, leave, unused};

impl DesiredConflist<'_> {
    /// Plans our entry in the primary's own list, or in a copy of its configuration of one plugin.
    pub(super) fn chained(&self, now: &DirectorySnapshot) -> Planned {
        let mut steps = removals(copy::orphans(now));
        let primary = match self.named(now) {
            Ok(Some(name)) => name,
            Ok(None) => self.first(now, &mut steps)?,
            Err((_, why)) => return Err((steps, why)),
        };
        let primary = copy::inlined(now, &primary).unwrap_or(primary);
        known_at(now, |denied| denied <= primary.as_str())?;
        let is_list = ConfigFormat::of(&primary) == Some(ConfigFormat::List);
        let marked = || copy::marked(self.entry, &primary);
        let entry = if is_list { self.entry.clone() } else { marked() };
        let text = self.merged(now, &primary, &entry).map_err(|(_, why)| (steps.clone(), why))?;
        let target = if is_list { Ok(primary.clone()) } else { self.copy_of(now, &primary) };
        let target = target.map_err(|(_, why)| (steps.clone(), why))?;
        if now.text(&target) != Some(&text) || has_another_mode(now, &target, &primary) {
            let mode = FileMode::Of(primary.clone());
            // First the new one: at any moment a runtime finds the old file or the new one.
            steps.insert(0, Step::Write { name: target.clone(), text, mode });
        }
        for step in removals(copy::superseded(now)).into_iter().chain(self.brought_up(now, &target)) {
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        steps.retain(|step| !matches!(step, Step::Remove { name } if *name == target));
        let then = if steps.is_empty() { self.seen(now, &target) } else { Ok(target) };
        Ok(Plan { steps, then })
    }

    /// First network in the directory that is not a copy. A file with our plugin alone is removed: read first, it would leave pods without a network.
    /// Another installer's `02-istio-cni.conflist` is the network only if the directory has no other.
    fn first(&self, now: &DirectorySnapshot, steps: &mut Vec<Step>) -> Result<String, Stopped> {
        let (mut left_over, mut broken) = (None, None);
        for (name, document) in now.usable() {
            if document.others().is_empty() {
                steps.push(Step::Remove { name: name.to_owned() });
            } else if let Some(owner) = copy::owner(now, name) {
                broken = broken.or_else(|| Some(owner).filter(|owner| !now.is_gone(owner)));
            } else if unused::is_unused(&document) {
                // Of a release that took it for a network.
                steps.extend(leave::step(self.chain, now, name).filter(|_| !document.ours().is_empty()));
            } else if copy::is_copy(self.chain, now, name, &document) {
                left_over.get_or_insert_with(|| name.to_owned());
            } else {
                return Ok(name.to_owned());
            }
        }
        let unusable = |name: String| {
            let why = now.valid(&name).err().unwrap_or(Unusable::Absent);
            NotRight::Refused { name, why }
        };
        left_over.ok_or_else(|| (std::mem::take(steps), broken.map_or(NotRight::NoPrimary, unusable)))
    }

    /// Name of the copy of `primary`: runtimes read it first, and after every network that they read before `primary`. A foreign file keeps its name.
    fn copy_of(&self, now: &DirectorySnapshot, primary: &str) -> Result<String, Stopped> {
        let is_ours =
            |name: &str| now.is_gone(name) || self.made.contains(name) || copy::owner(now, name).is_some();
        let before = now.usable().take_while(|(name, _)| *name < primary);
        let before = before.filter(|(name, is)| !copy::is_copy(self.chain, now, name, is)).last();
        let names = copy::names(primary, before.as_ref().map(|(name, _)| *name));
        let foreign = || names.first().map_or(primary, String::as_str).to_owned();
        let free = names.iter().find(|name| is_ours(name)).cloned();
        free.ok_or_else(|| nothing(NotRight::Foreign(foreign())))
    }

    /// Checks that runtimes read our entry.
    fn seen(&self, now: &DirectorySnapshot, target: &str) -> Result<String, NotRight> {
        let Some((first, document)) = now.usable().next() else { return Err(NotRight::NoPrimary) };
        if first == target || !document.ours().is_empty() {
            return Ok(target.to_owned());
        }
        match Multus::of(now, &document).map(|multus| multus.calls(now, target)) {
            Some(Ok(())) => Ok(target.to_owned()),
            Some(Err(why)) => Err(NotRight::Multus { file: first.to_owned(), why: why.into() }),
            None => Err(NotRight::Preempted { first: first.to_owned(), ours: target.to_owned() }),
        }
    }
}

/// True if the modes of a copy and of its owner's file are known and differ.
fn has_another_mode(now: &DirectorySnapshot, copy: &str, owner: &str) -> bool {
    now.modes.get(copy).zip(now.modes.get(owner)).is_some_and(|(copy, owner)| copy != owner)
}

fn removals(names: Vec<String>) -> Vec<Step> {
    names.into_iter().map(|name| Step::Remove { name }).collect()
}
