// SPDX-License-Identifier: Apache-2.0
//! Our plugin in a file of its own, for who calls it by that: Multus.

use std::path::Path;

use serde_json::Value;

use super::{DesiredConflist, FileMode, NotRight, Plan, Planned, Step, known_at, nothing};
use crate::conflist::document::Document;
use crate::conflist::multus::Multus;
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

/// Checks that pods which name our network get it: runtimes read Multus' file first in `runtime`, and Multus looks for networks in `ours`, a
/// directory of the node.
///
/// # Errors
/// They do not.
pub fn called(runtime: &DirectorySnapshot, ours: Option<&Path>) -> Result<(), NotRight> {
    let first = runtime.usable().next();
    let before = |(denied, _): &(&str, &str)| first.as_ref().is_none_or(|(first, _)| denied < first);
    if let Some((_, why)) = runtime.denied().find(before) {
        return Err(NotRight::Denied(why.to_owned()));
    }
    let multus = first.as_ref().and_then(|(file, document)| Some((*file, Multus::of(runtime, document)?)));
    let Some((file, multus)) = multus else {
        let directory = runtime.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        return Err(NotRight::NoMultus { directory, first: first.map(|(name, _)| name.to_owned()) });
    };
    let looks = ours.map_or(Ok(()), |ours| multus.looks_in(ours));
    looks
        .and_then(|()| multus.attaches(runtime))
        .map_err(|why| NotRight::Multus { file: file.to_owned(), why: why.into() })
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::conflist::scan::Content;

    const LAB: &str = r#"{"name":"lab","cniVersion":"1.0.0","plugins":[{"type":"ptp"}]}"#;

    #[test]
    fn our_network_is_called_while_runtimes_call_multus_and_multus_looks_here() {
        let multus = |more: &str| {
            format!(
                r#"{{"name":"m","type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/10-lab.conflist"{more}}}"#
            )
        };
        let (plain, elsewhere) = (multus(""), multus(r#","confDir":"/host/etc/cni/net.d""#));
        let waits = multus(r#","readinessindicatorfile":"/etc/cni/net.d/10-ovn.conf""#);
        let lab = ("10-lab.conflist", LAB);
        let table: [(&[(&str, &str)], &str); 6] = [
            (&[("00-multus.conf", &plain), lab], ""),
            (&[lab], "read 10-lab.conflist first in /etc/cni/net.d, and not Multus' file"),
            (&[], "read no file first in /etc/cni/net.d"),
            (&[("05-early.conflist", LAB), ("10-multus.conf", &plain)], "read 05-early.conflist first"),
            (
                &[("00-multus.conf", &elsewhere), lab],
                "looks for networks in /host/etc/cni/net.d, not in /etc/cni/multus/net.d",
            ),
            (&[("00-multus.conf", &waits), lab], "before /etc/cni/net.d/10-ovn.conf is there"),
        ];
        for (files, wanted) in table {
            let files =
                files.iter().map(|(name, text)| ((*name).to_owned(), Content::Text((*text).to_owned())));
            let path = Some(PathBuf::from("/etc/cni/net.d"));
            let mut runtime =
                DirectorySnapshot { files: files.collect(), path, ..DirectorySnapshot::default() };
            let ours = Some(Path::new("/etc/cni/multus/net.d"));
            let got = called(&runtime, ours).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(got.contains(wanted) && got.is_empty() == wanted.is_empty(), "{wanted:?}: {got:?}");
            runtime.files.insert("00-a.conf".to_owned(), Content::Denied("failed to read it".to_owned()));
            assert_eq!(called(&runtime, ours), Err(NotRight::Denied("failed to read it".to_owned())));
        }
    }
}
