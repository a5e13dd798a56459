// SPDX-License-Identifier: Apache-2.0
//! Whether the runtime has loaded our entry. Pure: the time is an argument.

use std::time::Duration;

use protocol::cri::{LoadedNetwork, LoadedNetworks};
use serde_json::Value;
use tokio::time::Instant;

use super::cri::Answer;
use super::kind::RuntimeKind;
use crate::conflist::OUR_TYPE;
use crate::conflist::networks::Networks;

/// Our entry, as the directory has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Path of its file.
    pub file: String,
    /// Networks of the directory.
    pub networks: Networks,
    /// Last change after which runtimes have to read the directory again; `None` if that is longer ago than this process can tell.
    pub since: Option<Instant>,
}

/// State of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loaded {
    Yes,
    /// Not for certain, with the reason; certain at that time, if nothing changes until then.
    NotYet {
        why: String,
        until: Option<Instant>,
    },
}

/// What the runtime said, where it is asked (`criSocket`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Heard {
    /// It is not asked.
    #[default]
    NotAsked,
    /// It is, and has not answered yet.
    Nothing,
    /// No answer, with the reason.
    Failed(String),
    /// Its answer, and when it was asked.
    Said(Answer, Instant),
}

/// Decides it: by the runtime's own word where it is asked and says what it has loaded, else by the time.
#[must_use]
pub fn decide(installed: Option<&Installed>, kind: RuntimeKind, heard: &Heard, now: Instant) -> Loaded {
    let Some(installed) = installed else {
        return Loaded::NotYet { why: "there is nothing to load yet".to_owned(), until: None };
    };
    let why = match heard {
        Heard::NotAsked | Heard::Said(Answer::Nothing, _) => return by_time(installed, kind, now),
        Heard::Nothing => "the runtime is not asked yet".to_owned(),
        Heard::Failed(why) => format!("the runtime cannot be asked at its socket: {why}; check criSocket"),
        Heard::Said(Answer::Configured(configured), _) => match &configured.default_network {
            Some(name) if !installed.networks.ours.contains(name) => of_default(name, installed),
            _ => return by_time(installed, kind, now),
        },
        Heard::Said(Answer::Loaded(loaded), at) => match not_loaded(installed, loaded) {
            None if installed.since.is_none_or(|since| *at >= since) => return Loaded::Yes,
            None => "the runtime is not asked since the last change yet".to_owned(),
            Some(why) => why,
        },
    };
    Loaded::NotYet { why, until: None }
}

fn by_time(Installed { file, since, .. }: &Installed, kind: RuntimeKind, now: Instant) -> Loaded {
    match since.map(|since| since + kind.settle()) {
        Some(until) if now < until => Loaded::NotYet {
            why: format!(
                "the runtime may not have loaded {file} yet: it has {} ms for that from the last change on",
                kind.settle().as_millis()
            ),
            until: Some(until),
        },
        _ => Loaded::Yes,
    }
}

fn of_default(name: &str, Installed { file, networks, .. }: &Installed) -> String {
    let remedy = networks.files.get(name).map_or_else(
        || "which is in no file of this directory: check cniConfDir".to_owned(),
        |of| format!("whose list is {of}: set CNI_CONF_NAME to {of}"),
    );
    format!("our entry is in {file}, and cni_default_network of the runtime is {name:?}, {remedy}")
}

/// Reason why what is loaded is not what the directory has.
fn not_loaded(Installed { file, networks, .. }: &Installed, loaded: &LoadedNetworks) -> Option<String> {
    let LoadedNetworks { directory, most, networks: all, failure } = loaded;
    if let Some(failure) = failure {
        return Some(format!("the runtime cannot load a network from {directory}: {failure}"));
    }
    let Some(first) = all.first() else {
        return Some(format!("the runtime has loaded no network from {directory}"));
    };
    let ours: Vec<_> = all.iter().filter(|network| entry_of(network).is_some()).collect();
    if all.len() > 1 && (networks.repeats || ours.len() > 1) {
        let names: Vec<_> = all.iter().map(|network| network.name.as_str()).collect();
        return Some(format!(
            "the runtime adds each pod to {} networks ({}), to the primary one twice: set max_conf_num, which is {most}, to 1 in its configuration",
            all.len(),
            names.join(", "),
        ));
    }
    let wanted = networks.first.as_ref()?;
    let right =
        first.name == wanted.name && (wanted.entry.is_none() || entry_of(first) == wanted.entry.as_ref());
    (!right).then(|| {
        format!(
            "the runtime has loaded network {:?} from {directory}, without our entry as it is in {file}",
            first.name
        )
    })
}

fn entry_of(network: &LoadedNetwork) -> Option<&Value> {
    network.plugins.iter().find(|plugin| plugin["type"] == OUR_TYPE)
}

/// Time of a change that is so long ago.
#[must_use]
pub fn before(now: Instant, ago: Option<Duration>) -> Option<Instant> {
    now.checked_sub(ago?)
}

#[cfg(test)]
mod tests {
    use protocol::directories::Directories;
    use serde_json::json;

    use super::*;
    use crate::conflist::networks::FirstNetwork;

    fn installed(since: Option<Instant>) -> Option<Installed> {
        Some(Installed { file: "10-x.conflist".to_owned(), networks: Networks::default(), since })
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_loaded_the_settle_time_after_its_last_change() {
        let written = Instant::now();
        for kind in
            [RuntimeKind::Unknown, RuntimeKind::Containerd, RuntimeKind::CriO, RuntimeKind::CriDockerd]
        {
            let until = written + kind.settle();
            let Loaded::NotYet { why, until: told } = decide(
                installed(Some(written)).as_ref(),
                kind,
                &Heard::NotAsked,
                until - Duration::from_millis(1),
            ) else {
                panic!("{kind:?}")
            };
            assert!(why.contains("10-x.conflist"), "{why}");
            assert_eq!(told, Some(until));
            assert_eq!(
                decide(installed(Some(written)).as_ref(), kind, &Heard::NotAsked, until),
                Loaded::Yes,
                "{kind:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_loaded_before_it_is_written_and_what_is_old_is_loaded() {
        let now = Instant::now();
        assert!(matches!(
            decide(None, RuntimeKind::CriO, &Heard::NotAsked, now),
            Loaded::NotYet { until: None, .. }
        ));
        assert_eq!(
            decide(installed(None).as_ref(), RuntimeKind::CriDockerd, &Heard::NotAsked, now),
            Loaded::Yes
        );
        assert_eq!(before(now, None), None);
        assert_eq!(before(now, Some(Duration::MAX)), None);
    }

    fn with(networks: Networks, since: Option<Instant>) -> Installed {
        Installed { file: "/etc/cni/net.d/10-x.conflist".to_owned(), networks, since }
    }

    /// A directory whose first list is the primary's, with our entry.
    fn directory() -> Networks {
        Networks {
            ours: ["crio".to_owned()].into(),
            files: [("crio", "100-crio-bridge.conflist"), ("azure", "15-azure.conflist")]
                .map(|(name, file)| (name.to_owned(), file.to_owned()))
                .into(),
            first: Some(FirstNetwork {
                name: "crio".to_owned(),
                entry: Some(json!({"type": "istio-cni", "a": 1})),
            }),
            repeats: false,
        }
    }

    fn network(name: &str, plugins: &[Value]) -> LoadedNetwork {
        LoadedNetwork { name: name.to_owned(), plugins: plugins.to_vec() }
    }

    fn said(networks: Vec<LoadedNetwork>, at: Instant) -> Heard {
        let loaded =
            LoadedNetworks { directory: "/etc/cni/net.d".to_owned(), most: 1, networks, failure: None };
        Heard::Said(Answer::Loaded(loaded), at)
    }

    fn why(installed: &Installed, heard: &Heard, now: Instant) -> Option<String> {
        match decide(Some(installed), RuntimeKind::Containerd, heard, now) {
            Loaded::Yes => None,
            Loaded::NotYet { why, until } => {
                assert_eq!(until, None, "no time ends it");
                Some(why)
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_says_what_it_has_loaded_is_believed_and_not_the_clock() {
        let now = Instant::now();
        let (primary, entry) = (json!({"type": "bridge"}), json!({"a": 1, "type": "istio-cni"}));
        let right = vec![network("crio", &[primary.clone(), entry.clone()])];
        let installed = with(directory(), Some(now));
        assert_eq!(why(&installed, &said(right.clone(), now), now), None, "at once");
        let later = now + Duration::from_secs(3600);
        for (heard, fragment) in [
            (said(vec![network("crio", std::slice::from_ref(&primary))], now), "without our entry"),
            (
                said(vec![network("crio", &[primary, json!({"type": "istio-cni", "a": 2})])], now),
                "without our entry",
            ),
            (
                said(vec![network("other", std::slice::from_ref(&entry))], now),
                "network \"other\" from /etc/cni/net.d",
            ),
            (said(vec![], now), "no network from /etc/cni/net.d"),
            (Heard::Nothing, "not asked yet"),
            (Heard::Failed("connect: no such file".to_owned()), "connect: no such file; check criSocket"),
        ] {
            let why = why(&installed, &heard, later).unwrap();
            assert!(why.contains(fragment), "{why}");
        }
        let stale = said(right, now - Duration::from_millis(1));
        assert!(why(&installed, &stale, later).unwrap().contains("since the last change"));
        let failed = Heard::Said(
            Answer::Loaded(LoadedNetworks { failure: Some("torn".to_owned()), ..LoadedNetworks::default() }),
            now,
        );
        assert!(why(&installed, &failed, later).unwrap().contains("torn"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_would_get_the_primary_twice_is_told_with_the_setting() {
        let now = Instant::now();
        let entry = json!({"type": "istio-cni", "a": 1});
        let copy = network("crio", &[json!({"type": "bridge"}), entry.clone()]);
        let two = said(vec![copy.clone(), network("crio", &[json!({"type": "bridge"})])], now);
        let owned = with(Networks { repeats: true, ..directory() }, None);
        assert!(why(&owned, &two, now).unwrap().contains("max_conf_num"));
        assert_eq!(why(&with(directory(), None), &two, now), None, "a second network that an operator wants");
        let both = said(vec![copy.clone(), network("b", &[entry])], now);
        assert!(why(&with(directory(), None), &both, now).unwrap().contains("max_conf_num"));
        assert_eq!(why(&owned, &said(vec![copy], now), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn crios_default_network_has_to_have_our_entry_and_then_the_time_decides() {
        let now = Instant::now();
        let configured = |name: Option<&str>| {
            let default_network = name.map(str::to_owned);
            Heard::Said(Answer::Configured(Directories { default_network, ..Directories::default() }), now)
        };
        let installed = with(directory(), Some(now));
        let told = why(&installed, &configured(Some("azure")), now).unwrap();
        assert!(told.contains("set CNI_CONF_NAME to 15-azure.conflist"), "{told}");
        assert!(why(&installed, &configured(Some("gone")), now).unwrap().contains("check cniConfDir"));
        for heard in [configured(Some("crio")), configured(None), Heard::Said(Answer::Nothing, now)] {
            let decided = |now| decide(Some(&installed), RuntimeKind::CriO, &heard, now);
            assert!(matches!(decided(now), Loaded::NotYet { until: Some(_), .. }), "{heard:?}");
            assert_eq!(decided(now + RuntimeKind::CriO.settle()), Loaded::Yes, "{heard:?}");
        }
    }
}
