// SPDX-License-Identifier: Apache-2.0
//! Our entry in the primary's own list, or in the one that takes the place of its `.conf`.

use serde_json::Value;

use super::elsewhere::delegates;
use super::{
    DesiredConflist, FileMode, NotRight, Plan, Planned, Step, Stopped, aside, has_ours, known_at, nothing,
};
use crate::conflist::document::Document;
use crate::conflist::scan::{DirectorySnapshot, list_name, parsed};
use crate::conflist::{copy, splice};

impl DesiredConflist<'_> {
    /// Plans our entry in the primary's own list.
    pub(super) fn chained(&self, now: &DirectorySnapshot) -> Planned {
        let mut steps = Vec::new();
        let primary = match self.named(now)? {
            Some(name) => name,
            None => self.first(now, &mut steps)?,
        };
        known_at(now, |denied| denied <= primary.as_str())?;
        let entry = self.entry_of(now, &primary);
        let text = self.merged(now, &primary, &entry).map_err(|(_, why)| (steps.clone(), why))?;
        let target = self.target(now, &primary)?;
        if now.text(&target) != Some(&text) {
            let mode = FileMode::Of(primary.clone());
            // First the new one: at any moment a runtime finds the old file or the new one.
            steps.insert(0, Step::Write { name: target.clone(), text, mode });
        }
        if target != primary {
            let at = usize::from(!steps.is_empty());
            steps.insert(at, Step::Remove { name: primary });
        }
        let further = self.brought_up(now, &target).into_iter().filter(|step| !steps.contains(step));
        steps.extend(further.collect::<Vec<_>>());
        let then = if steps.is_empty() { self.seen(now, &target) } else { Ok(target) };
        Ok(Plan { steps, then })
    }

    /// The file that runtimes use. What is ours alone is none: as the first it would leave pods without a network, so it goes. A list of
    /// our own is one only as long as there is no other.
    fn first(&self, now: &DirectorySnapshot, steps: &mut Vec<Step>) -> Result<String, Stopped> {
        let mut left_over = None;
        for (name, document) in now.usable() {
            if document.others().is_empty() {
                steps.push(Step::Remove { name: name.to_owned() });
            } else if copy::is_copy(self.chain, name, &document) {
                left_over.get_or_insert_with(|| name.to_owned());
            } else {
                return Ok(name.to_owned());
            }
        }
        left_over.ok_or_else(|| (std::mem::take(steps), NotRight::NoPrimary))
    }

    /// Our entry for a list: in one that we own it keeps its mark.
    fn entry_of(&self, now: &DirectorySnapshot, name: &str) -> Value {
        let document = now.text(name).and_then(|text| Document::parse(text).ok());
        let mark = document.and_then(|document| copy::mark(&document));
        mark.map_or_else(|| self.entry.clone(), |primary| copy::marked(self.entry, &primary))
    }

    /// File of the list that is made of `primary`. Somebody else's is never overwritten: there is a name between the two.
    fn target(&self, now: &DirectorySnapshot, primary: &str) -> Result<String, Stopped> {
        let Some(list) = list_name(primary) else { return Err(nothing(NotRight::Name(primary.to_owned()))) };
        if list == primary {
            return Ok(list);
        }
        let aside = aside(primary);
        // Runtimes read it before the list, whichever of the two is older.
        if aside < list && has_ours(now, &aside) {
            return Ok(aside);
        }
        let read = |name: &str| now.text(name).and_then(|text| parsed(name, text).ok());
        let wanted = read(primary);
        // Its writer may have changed the plugin, and the agent that made the list may be gone: the network is the same. A list of somebody else's
        // has our entry as well, if runtimes read it.
        let repeats = |is: &Document<'_>| {
            if !matches!(is, Document::List(list) if splice::is_upgraded(list)) {
                return false;
            }
            let same = |conf: &Document<'_>| {
                is.others() == conf.others() || (is.network().is_some() && is.network() == conf.network())
            };
            wanted.as_ref().is_some_and(same)
        };
        let is_ours = |name: &str| match read(name) {
            None => !now.files.contains_key(name),
            Some(is) => !is.ours().is_empty() && (repeats(&is) || self.made.contains(name)),
        };
        let foreign = || nothing(NotRight::Foreign(aside.clone()));
        // Runtimes would read the list before a `.json` that its writer writes again.
        let order = if list.as_str() > primary { [list, aside.clone()] } else { [aside.clone(), list] };
        order.into_iter().find(|name| is_ours(name)).ok_or_else(foreign)
    }

    /// Checks that runtimes read our entry.
    fn seen(&self, now: &DirectorySnapshot, target: &str) -> Result<String, NotRight> {
        let Some((first, document)) = now.usable().next() else { return Err(NotRight::NoPrimary) };
        let through = first == target || delegates(&document) || !document.ours().is_empty();
        if through {
            return Ok(target.to_owned());
        }
        Err(NotRight::Preempted { first: first.to_owned(), ours: target.to_owned() })
    }
}
