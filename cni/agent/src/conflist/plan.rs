// SPDX-License-Identifier: Apache-2.0
//! Decides what to write and remove so that pods are set up through our plugin, and whether what is there already does it. It is asked
//! again after every change: once it wants nothing, what it says of the directory is what a runtime sees.

use std::collections::BTreeSet;

use protocol::mutant;
use serde_json::Value;

use super::document::{Document, Invalid, List, Plugin};
use super::scan::{Refused, Snapshot, list_name};
use super::splice;
use crate::settings::ChainSettings;

/// The name of a configuration of its own, if nobody gave one.
const STANDALONE: &str = "YYY-istio-cni.conf";
/// The name of a list of our own, if nobody gave one.
pub const OWNED: &str = "02-istio-cni.conflist";

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The file gets this content, whole.
    Write {
        /// Its name.
        name: String,
        /// Its content.
        text: String,
        /// Its mode.
        mode: Mode,
    },
    /// The file goes.
    Remove {
        /// Its name.
        name: String,
    },
}

/// Which mode a file gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// That of a file that is there: what somebody chose stays.
    Of(String),
    /// Ours.
    Ours,
}

/// Why pods are not set up through our plugin, and there is nothing that we may do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRight {
    /// No network is configured yet.
    #[error("no runtime would find a valid network configuration: the primary CNI has to write one")]
    NoPrimary,
    /// A file that we were told to use is not there.
    #[error(
        "{0}, named by CNI_CONF_NAME, is not there: the primary CNI has to write it, or the name has to change"
    )]
    Waiting(String),
    /// A file that we were told to use is of no use.
    #[error("{name}: {why}; correct it")]
    Refused {
        /// Which.
        name: String,
        /// What is wrong with it.
        why: Refused,
    },
    /// It is not known what runtimes read first.
    #[error("failed to {0}")]
    Denied(String),
    /// Runtimes read another file first.
    #[error(
        "runtimes read {first} first, not {ours}, and it lacks istio-cni: remove it, or name it in CNI_CONF_NAME"
    )]
    Preempted {
        /// What they read.
        first: String,
        /// Where our entry is.
        ours: String,
    },
    /// Runtimes read another file first than the one that is ours.
    #[error(
        "runtimes read {first} first, not {ours}: set ISTIO_OWNED_CNI_CONFIG_FILENAME to a name that sorts before it"
    )]
    OwnedNotFirst {
        /// What they read.
        first: String,
        /// Ours.
        ours: String,
    },
    /// A file with the name that ours is to have is somebody else's.
    #[error("{0} is not ours to overwrite: remove it, or name another file in CNI_CONF_NAME")]
    Foreign(String),
    /// A name that cannot be one.
    #[error(
        "{0:?} is no name of a CNI configuration: it has to end in .conflist or .conf, without a directory"
    )]
    Name(String),
}

/// What to do, and what there is to say of the directory when it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// The file with our entry, or why there is none.
    pub then: Result<String, NotRight>,
}

/// What is wanted.
#[derive(Debug)]
pub struct Wish<'a> {
    /// Where our entry goes.
    pub chain: &'a ChainSettings,
    /// Our entry, as it stands in a list, or for a file of its own.
    pub entry: &'a Value,
    /// Files that this agent made: what somebody puts in their place is no reason to give them up.
    pub made: &'a BTreeSet<String>,
    /// Plugins that can do the newest version; asked for where the version is to be raised, else empty.
    pub able: &'a BTreeSet<String>,
}

impl Wish<'_> {
    /// What has to change in the directory.
    #[must_use]
    pub fn plan(&self, now: &Snapshot) -> Plan {
        let planned = match (self.chain.chained, self.chain.owned) {
            (false, _) if !mutant!("standalone-chained") => self.standalone(now),
            (true, true) if !mutant!("owned-in-primary") => self.owned(now),
            (_, _) => self.chained(now),
        };
        planned.unwrap_or_else(|(steps, why)| match (why, now.denied().next()) {
            // That file may be the network.
            (NotRight::NoPrimary, Some((_, denied))) => {
                Plan { steps: Vec::new(), then: Err(NotRight::Denied(denied.to_owned())) }
            }
            (why, _) => Plan { steps, then: Err(why) },
        })
    }

    /// A file with our entry and nothing else.
    fn standalone(&self, now: &Snapshot) -> Planned {
        let name = if self.chain.conf_name.is_empty() { STANDALONE } else { &self.chain.conf_name };
        let list = list_name(name)
            .filter(|_| !name.contains('/'))
            .ok_or_else(|| nothing(NotRight::Name(name.to_owned())))?;
        let wanted = if list == name { alone_in_a_list(self.entry) } else { self.entry.clone() };
        let is = now.text(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
        if is.as_ref() == Some(&wanted) {
            return Ok(Plan { steps: Vec::new(), then: Ok(name.to_owned()) });
        }
        let known = now.text(name).is_some_and(is_ours_alone) && !mutant!("ours-forgotten");
        let ours = known || self.made.contains(name);
        known_at(now, |denied| denied == name)?;
        if now.files.contains_key(name) && !ours && !mutant!("foreign-overwritten") {
            return Err(nothing(NotRight::Foreign(name.to_owned())));
        }
        let write = Step::Write { name: name.to_owned(), text: format!("{wanted:#}\n"), mode: Mode::Ours };
        Ok(Plan { steps: vec![write], then: Ok(name.to_owned()) })
    }

    /// A list of our own that repeats the primary's, with our entry.
    fn owned(&self, now: &Snapshot) -> Planned {
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

    /// Our entry in the primary's own list.
    fn chained(&self, now: &Snapshot) -> Planned {
        let mut steps = Vec::new();
        let primary = match self.named(now)? {
            Some(name) => name,
            None => self.first(now, &mut steps)?,
        };
        known_at(now, |denied| denied <= primary.as_str())?;
        let text = self.merged(now, &primary).map_err(|(_, why)| (steps.clone(), why))?;
        let target = self.target(now, &primary)?;
        if now.text(&target) != Some(&text) {
            let mode = Mode::Of(primary.clone());
            // First the new one: at any moment a runtime finds the old file or the new one.
            steps.insert(0, Step::Write { name: target.clone(), text, mode });
        }
        if target != primary && !(mutant!("conf-left-behind") && steps.is_empty()) {
            let at = usize::from(!steps.is_empty() && !mutant!("removed-before-written"));
            steps.insert(at, Step::Remove { name: primary });
        }
        let then = if steps.is_empty() { self.seen(now, &target) } else { Ok(target) };
        Ok(Plan { steps, then })
    }

    /// The file that we are told to use, under the name that it has now.
    fn named(&self, now: &Snapshot) -> Result<Option<String>, Stopped> {
        let name = self.chain.conf_name.as_str();
        if name.is_empty() || mutant!("name-ignored") {
            return Ok(None);
        }
        let list = list_name(name)
            .filter(|_| !name.contains('/'))
            .ok_or_else(|| nothing(NotRight::Name(name.to_owned())))?;
        let aside = aside(name);
        let has_ours = |name: &str| {
            now.text(name).is_some_and(|text| Document::parse(text).is_ok_and(|is| !is.ours().is_empty()))
        };
        let counterpart = if list == name { name.trim_end_matches("list").to_owned() } else { list };
        let found = [(name, true), (&aside, has_ours(&aside)), (&counterpart, true)]
            .into_iter()
            .find(|(name, counts)| *counts && now.files.contains_key(*name));
        found
            .map(|(name, _)| Some(name.to_owned()))
            .ok_or_else(|| nothing(NotRight::Waiting(name.to_owned())))
    }

    /// The file that runtimes use. What is ours alone is none: as the first it would leave pods without a network, so it goes.
    fn first(&self, now: &Snapshot, steps: &mut Vec<Step>) -> Result<String, Stopped> {
        let other_mode = if self.chain.owned_name.is_empty() { OWNED } else { &self.chain.owned_name };
        let mut left_over = None;
        for (name, document) in now.usable() {
            if document.others().is_empty() {
                steps.push(Step::Remove { name: name.to_owned() });
            } else if [other_mode, OWNED].contains(&name) && !document.ours().is_empty() {
                // Made when a list of our own was asked for. It goes once the primary's has our entry.
                left_over.get_or_insert_with(|| name.to_owned());
            } else {
                steps.extend(left_over.map(|name| Step::Remove { name }));
                return Ok(name.to_owned());
            }
        }
        left_over.ok_or_else(|| (std::mem::take(steps), NotRight::NoPrimary))
    }

    /// A file's text with our entry, as a list that runtimes take.
    fn merged(&self, now: &Snapshot, name: &str) -> Result<String, Stopped> {
        let refused = |why| nothing(NotRight::Refused { name: name.to_owned(), why });
        let Some(text) = now.text(name) else {
            return Err(refused(now.valid(name).err().unwrap_or(Refused::Absent)));
        };
        let document = Document::parse(text).map_err(|why| refused(why.into()))?;
        if document.others().is_empty() {
            // Pods would get our plugin and no network.
            return Err(refused(Invalid::Plugins.into()));
        }
        let merged = match document {
            Document::List(list) if splice::has_entry(&list, self.entry) => text.to_owned(),
            Document::List(list) if mutant!("numbers-re-encoded") => re_encoded(&list, self.entry),
            Document::List(list) => splice::with_entry(&list, Some(self.entry)),
            Document::Single(single) => {
                splice::upgraded(&single, self.entry).map_err(|why| refused(why.into()))?
            }
        };
        let Document::List(list) = Document::parse(&merged).map_err(|why| refused(why.into()))? else {
            return Err(refused(Refused::Name));
        };
        list.check().map_err(|why| refused(why.into()))?;
        let is_able = |plugin: &Plugin<'_>| plugin.kind.as_ref().is_some_and(|kind| self.able.contains(kind));
        let raise = self.chain.raise_version && list.plugins.iter().all(is_able);
        let raised = if raise { splice::raised(&list) } else { None };
        Ok(raised.unwrap_or(merged))
    }

    /// Which file gets the list that is made of `primary`. Somebody else's is never overwritten: there is a name between the two.
    fn target(&self, now: &Snapshot, primary: &str) -> Result<String, Stopped> {
        let Some(list) = list_name(primary) else { return Err(nothing(NotRight::Name(primary.to_owned()))) };
        if list == primary {
            return Ok(list);
        }
        let kinds = |name: &str| {
            now.text(name)
                .and_then(|text| Document::parse(text).ok())
                .map(|is| (is.others(), is.ours().len()))
        };
        let wanted = kinds(primary).map(|(others, _)| others);
        let is_ours = |name: &str| match kinds(name) {
            None => !now.files.contains_key(name),
            Some((others, ours)) => ours > 0 && (Some(others) == wanted || self.made.contains(name)),
        };
        let free = |name: &String| is_ours(name) || mutant!("counterpart-overwritten");
        let aside = aside(primary);
        let foreign = || nothing(NotRight::Foreign(aside.clone()));
        [list, aside.clone()].into_iter().find(free).ok_or_else(foreign)
    }

    /// Whether runtimes get to our entry.
    fn seen(&self, now: &Snapshot, target: &str) -> Result<String, NotRight> {
        let Some((first, document)) = now.usable().next() else { return Err(NotRight::NoPrimary) };
        let through = first == target || delegates(&document) || !document.ours().is_empty();
        if through || mutant!("first-file-ignored") {
            return Ok(target.to_owned());
        }
        Err(NotRight::Preempted { first: first.to_owned(), ours: target.to_owned() })
    }
}

/// What was planned, or why that ended.
type Planned = Result<Plan, Stopped>;
/// What can be done all the same, and why nothing more.
type Stopped = (Vec<Step>, NotRight);

fn nothing(why: NotRight) -> Stopped {
    (Vec::new(), why)
}

/// Stops where it is not known what is in a file that matters.
fn known_at(now: &Snapshot, matters: impl Fn(&str) -> bool) -> Result<(), Stopped> {
    let denied = now.denied().find(|(name, _)| matters(name));
    denied.map_or(Ok(()), |(_, why)| Err(nothing(NotRight::Denied(why.to_owned()))))
}

/// The name that sorts right after `name` and before its list.
fn aside(name: &str) -> String {
    format!("{name}.conflist")
}

/// Multus hands on to other files: the one that we were told to use may be one of them.
fn delegates(document: &Document<'_>) -> bool {
    let first = document.others().first().cloned().flatten();
    first.is_some_and(|kind| kind.starts_with("multus") && !mutant!("multus-unknown"))
}

/// Whether a file holds our plugin and no other.
fn is_ours_alone(text: &str) -> bool {
    Document::parse(text).is_ok_and(|document| match &document {
        Document::List(list) => !list.plugins.is_empty() && document.others().is_empty(),
        Document::Single(_) => document.others().is_empty(),
    })
}

/// For a name that says that the file is a list.
fn alone_in_a_list(entry: &Value) -> Value {
    let mut plugin = entry.clone();
    let version = plugin.as_object_mut().and_then(|keys| keys.remove("cniVersion"));
    serde_json::json!({ "cniVersion": version, "name": plugin["name"], "plugins": [plugin] })
}

/// What a decoder and an encoder make of a list: a defect to find.
fn re_encoded(list: &List<'_>, entry: &Value) -> String {
    let spliced = splice::with_entry(list, Some(entry));
    serde_json::from_str::<Value>(&spliced).map_or(spliced, |value| format!("{value:#}"))
}
