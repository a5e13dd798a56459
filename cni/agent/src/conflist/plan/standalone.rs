// SPDX-License-Identifier: Apache-2.0
//! Our plugin in a file of its own, for who calls it by that: Multus.

use serde_json::Value;

use super::{DesiredConflist, FileMode, NotRight, Plan, Planned, Step, known_at, nothing};
use crate::conflist::document::Document;
use crate::conflist::scan::{DirectorySnapshot, list_name, taken};

/// Default name of the file.
const STANDALONE: &str = "YYY-istio-cni.conf";

impl DesiredConflist<'_> {
    /// Plans a file with our entry and nothing else.
    pub(super) fn standalone(&self, now: &DirectorySnapshot) -> Planned {
        let name = if self.chain.conf_name.is_empty() { STANDALONE } else { &self.chain.conf_name };
        let list = list_name(name)
            .filter(|_| !name.contains('/'))
            .ok_or_else(|| nothing(NotRight::Name(name.to_owned())))?;
        let wanted = if list == name { alone_in_a_list(self.entry) } else { self.entry.clone() };
        let text = format!("{wanted:#}\n");
        taken(name, &text).map_err(|why| nothing(NotRight::Refused { name: name.to_owned(), why }))?;
        let is = now.text(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let mut steps = self.taken_out(now, name);
        if is.as_ref() == Some(&wanted) && self.has_our_mode(now, name) {
            return Ok(Plan { steps, then: Ok(name.to_owned()) });
        }
        let ours = now.text(name).is_some_and(is_ours_alone) || self.made.contains(name);
        known_at(now, |denied| denied == name)?;
        if now.files.contains_key(name) && !ours {
            return Err(nothing(NotRight::Foreign(name.to_owned())));
        }
        let write = Step::Write { name: name.to_owned(), text, mode: FileMode::Ours };
        steps.insert(0, write);
        Ok(Plan { steps, then: Ok(name.to_owned()) })
    }
}

/// True if a file holds our plugin and no other.
fn is_ours_alone(text: &str) -> bool {
    Document::parse(text).is_ok_and(|document| match &document {
        Document::List(list) => !list.plugins.is_empty() && document.others().is_empty(),
        Document::Single(_) => document.others().is_empty(),
    })
}

/// Our entry as a list of one.
fn alone_in_a_list(entry: &Value) -> Value {
    let mut plugin = entry.clone();
    let version = plugin.as_object_mut().and_then(|keys| keys.remove("cniVersion"));
    serde_json::json!({ "cniVersion": version, "name": plugin["name"], "plugins": [plugin] })
}
