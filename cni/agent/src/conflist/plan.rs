// SPDX-License-Identifier: Apache-2.0
//! Decides what to write and remove so that pods are set up through our plugin, and whether what is there already does it. It is asked
//! again after every change: once it wants nothing, what it says of the directory is what a runtime sees.
//!
//! | module | where our entry goes |
//! |---|---|
//! | `chained` | into the primary's own list, or into a copy of its `.conf` |
//! | `owned` | into a list of our own that repeats the primary's |
//! | `standalone` | into a file of its own |
//! | `elsewhere` | and what becomes of it in other files |

use std::collections::BTreeSet;

use serde_json::Value;

use super::document::{Document, Invalid};
use super::scan::{DirectorySnapshot, Unusable, list_name, parsed};
use super::{copy, splice};
use crate::settings::ChainSettings;

mod chained;
mod elsewhere;
mod not_right;
mod owned;
mod standalone;

pub use not_right::NotRight;
pub use standalone::called;

/// Change of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Replaces a file's content.
    Write {
        name: String,
        text: String,
        mode: FileMode,
    },
    Remove {
        name: String,
    },
}

/// Mode of a written file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileMode {
    /// Mode of an existing file, which is preserved.
    Of(String),
    Ours,
}

/// Steps, and the state of the directory after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// File with our entry, or why there is none.
    pub then: Result<String, NotRight>,
}

/// Desired state.
#[derive(Debug)]
pub struct DesiredConflist<'a> {
    /// Placement of our entry.
    pub chain: &'a ChainSettings,
    /// Our entry for a list, or for a file of its own.
    pub entry: &'a Value,
    /// Files that this agent made: what somebody puts in their place is no reason to give them up.
    pub made: &'a BTreeSet<String>,
    /// Plugins that can do the newest version, those that plugins call included; asked for where the version is to be raised, else empty.
    pub able: &'a BTreeSet<String>,
}

impl DesiredConflist<'_> {
    /// Steps to the desired state.
    #[must_use]
    pub fn plan(&self, now: &DirectorySnapshot) -> Plan {
        let planned = match (self.chain.chained, self.chain.owned) {
            (false, _) => self.standalone(now),
            (true, true) => self.owned(now),
            (true, false) => self.chained(now),
        };
        planned.unwrap_or_else(|(steps, why)| match (why, now.denied().next()) {
            // That file may be the network.
            (NotRight::NoPrimary, Some((_, denied))) => {
                Plan { steps: Vec::new(), then: Err(NotRight::Denied(denied.to_owned())) }
            }
            (why, _) => Plan { steps, then: Err(why) },
        })
    }

    /// The file of `CNI_CONF_NAME`, under its present name. A list of our own stands for the file that it is made of.
    fn named(&self, now: &DirectorySnapshot) -> Result<Option<String>, Stopped> {
        let name = self.chain.conf_name.as_str();
        if name.is_empty() {
            return Ok(None);
        }
        let list = list_name(name)
            .filter(|_| !name.contains('/'))
            .ok_or_else(|| nothing(NotRight::Name(name.to_owned())))?;
        let aside = copy::aside(name);
        let counterpart = if list == name { name.trim_end_matches("list").to_owned() } else { list };
        let found = [(name, true), (&aside, has_ours(now, &aside)), (&counterpart, true)]
            .into_iter()
            .find(|(name, counts)| *counts && now.files.contains_key(*name));
        let waiting = |name: &str| nothing(NotRight::Waiting(name.to_owned()));
        let (found, _) = found.ok_or_else(|| waiting(name))?;
        let named = copy::owner(now, found).unwrap_or_else(|| found.to_owned());
        if now.is_gone(&named) { Err(waiting(&named)) } else { Ok(Some(named)) }
    }

    /// True if a file of ours has the right mode.
    fn has_our_mode(&self, now: &DirectorySnapshot, name: &str) -> bool {
        now.modes.get(name).is_none_or(|mode| *mode == self.chain.mode())
    }

    /// A file's text with our entry, as a valid conflist.
    fn merged(&self, now: &DirectorySnapshot, name: &str, entry: &Value) -> Result<String, Stopped> {
        let refused = |why| nothing(NotRight::Refused { name: name.to_owned(), why });
        let Some(text) = now.text(name) else {
            return Err(refused(now.valid(name).err().unwrap_or(Unusable::Absent)));
        };
        let document = parsed(name, text).map_err(|why| refused(why.into()))?;
        if document.others().is_empty() {
            // Pods would get our plugin and no network.
            return Err(refused(Invalid::Plugins.into()));
        }
        let invalid = |why: Invalid| refused(why.into());
        let list = match document {
            Document::List(list) => splice::lowered(&list).unwrap_or_else(|| text.to_owned()),
            Document::Single(single) => splice::upgraded(&single, entry).map_err(invalid)?,
        };
        let merged = self.with_entry(&list, entry).ok_or_else(|| refused(Unusable::Name))?;
        match Document::parse(&merged).map_err(invalid)? {
            Document::List(list) => list.check().map_err(invalid)?,
            Document::Single(_) => return Err(refused(Unusable::Name)),
        }
        Ok(merged)
    }

    /// A list of its owner's version with our entry, raised where that is wanted and possible; our entry says what was raised.
    fn with_entry(&self, text: &str, entry: &Value) -> Option<String> {
        let Ok(Document::List(list)) = Document::parse(text) else { return None };
        let spliced = |entry: &Value| match splice::has_entry(&list, entry) {
            true => text.to_owned(),
            false => splice::with_entry(&list, Some(entry)),
        };
        let is_able = || Document::List(list.clone()).called().is_subset(self.able);
        let owners = splice::to_be_raised(&list).filter(|_| self.chain.raise_version && is_able());
        let Some(owners) = owners else { return Some(spliced(entry)) };
        let mut entry = entry.clone();
        entry.as_object_mut()?.insert(splice::OWNERS_VERSION.to_owned(), owners.into());
        let spliced = spliced(&entry);
        let Ok(Document::List(list)) = Document::parse(&spliced) else { return None };
        splice::raised(&list)
    }
}

/// A plan, or why planning ended.
type Planned = Result<Plan, Stopped>;
/// Steps that are possible all the same, and why no others.
type Stopped = (Vec<Step>, NotRight);

fn nothing(why: NotRight) -> Stopped {
    (Vec::new(), why)
}

/// Stops at an unreadable file that matters.
fn known_at(now: &DirectorySnapshot, matters: impl Fn(&str) -> bool) -> Result<(), Stopped> {
    let denied = now.denied().find(|(name, _)| matters(name));
    denied.map_or(Ok(()), |(_, why)| Err(nothing(NotRight::Denied(why.to_owned()))))
}

/// True if our entry is in a file, valid or not.
fn has_ours(now: &DirectorySnapshot, name: &str) -> bool {
    now.text(name).is_some_and(|text| Document::parse(text).is_ok_and(|is| !is.ours().is_empty()))
}
