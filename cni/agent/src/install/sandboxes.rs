// SPDX-License-Identifier: Apache-2.0
//! Sandboxes that a DEL with our plugin is still to come for, decided over what the caches of runtime and Multus hold; pure.
//!
//! A sandbox counts while its network namespace is there. Files of one whose namespace is gone stay for ever: a runtime whose cache was lost, a
//! DEL that a runtime left out because there was no namespace any more (CRI-O after a reboot), a Multus whose DEL failed. They must not keep the
//! binary for ever, and nothing else ends them:
//!
//! | its namespace | written | it counts |
//! |---|---|---|
//! | is there | – | yes |
//! | nobody can tell | – | yes |
//! | is gone | since the node started | no: runtimes remove it after the last DEL |
//! | is gone | before | until the node has been up for [`SETTLED`]: the kubelet takes down what a reboot ended |
//! | none of its files says which | within [`SETTLED`] | yes: it is being set up, or taken down |
//! | none of its files says which | earlier, by Multus alone | no: what Multus attached is detached again |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kubelet looks after sandboxes of dead pods each minute; a runtime may be slow to come up, and a DEL is tried again with a back-off of some
/// minutes.
pub const SETTLED: Duration = Duration::from_secs(60 * 60);

/// Writer of a cached file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A result that CNI's library keeps: for the runtime, or for Multus as the runtime of its delegates.
    Library,
    /// A delegate of Multus.
    Multus,
}

/// A cached file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedFile {
    /// The sandbox that it is of; what is of no known form is one of its own.
    pub sandbox: String,
    /// Writer.
    pub by: By,
    /// Its configuration names our plugin.
    pub names_us: bool,
    /// Path of the netns on the node, if recorded.
    pub netns: Option<PathBuf>,
    /// Time since it was written; zero where this clock says that it was not yet, as after it was set back.
    pub age: Duration,
}

/// Existence of a netns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    There,
    Gone,
    /// Not visible from here.
    Unknown,
}

/// Numbers of sandboxes whose files name our plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// A DEL is to come.
    pub live: usize,
    /// No DEL is to come: the files were left behind.
    pub stale: usize,
}

/// Counts them. `uptime` is the node's; unknown, every file may be of before its start.
pub fn uses(entries: &[CachedFile], look: impl Fn(&Path) -> Namespace, uptime: Option<Duration>) -> Uses {
    let mut sandboxes: BTreeMap<&str, Vec<&CachedFile>> = BTreeMap::new();
    for entry in entries {
        sandboxes.entry(&entry.sandbox).or_default().push(entry);
    }
    let mut uses = Uses::default();
    for files in sandboxes.values().filter(|files| files.iter().any(|file| file.names_us)) {
        if is_live(files, &look, uptime) {
            uses.live += 1;
        } else {
            uses.stale += 1;
        }
    }
    uses
}

fn is_live(files: &[&CachedFile], look: impl Fn(&Path) -> Namespace, uptime: Option<Duration>) -> bool {
    let age = files.iter().map(|file| file.age).min().unwrap_or_default();
    let namespaces: Vec<Namespace> =
        files.iter().filter_map(|file| file.netns.as_deref()).map(look).collect();
    if namespaces.is_empty() {
        let multus_alone = files.iter().all(|file| file.by == By::Multus);
        return !multus_alone || age < SETTLED;
    }
    let gone = namespaces.iter().all(|namespace| *namespace == Namespace::Gone);
    let of_this_boot = !age.is_zero() && uptime.is_some_and(|uptime| age < uptime);
    let settled = uptime.is_some_and(|uptime| uptime >= SETTLED);
    !gone || !(of_this_boot || settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn entry(by: By, netns: &str, age: Duration) -> CachedFile {
        let netns = Some(PathBuf::from(netns)).filter(|path| !path.as_os_str().is_empty());
        CachedFile { sandbox: "c".to_owned(), by, names_us: true, netns, age }
    }

    /// True if the sandbox of these files counts on a node with this uptime.
    fn lives(files: &[CachedFile], uptime: Option<Duration>) -> bool {
        let look = |path: &Path| match path.to_str() {
            Some("/run/netns/there") => Namespace::There,
            Some("/run/netns/gone") => Namespace::Gone,
            _ => Namespace::Unknown,
        };
        let found = uses(files, look, uptime);
        assert_eq!(found.live + found.stale, 1, "{files:?}");
        found.live == 1
    }

    #[test]
    fn a_sandbox_counts_while_its_namespace_is_there_or_may_be() {
        for age in [MINUTE, DAY * 30] {
            for netns in ["/run/netns/there", "/elsewhere"] {
                assert!(lives(&[entry(By::Library, netns, age)], Some(DAY)), "{netns} {age:?}");
            }
            assert!(lives(&[entry(By::Library, "", age)], Some(DAY)), "older libraries keep none: {age:?}");
        }
    }

    #[test]
    fn files_of_a_namespace_that_is_gone_end() {
        let gone = |age| [entry(By::Library, "/run/netns/gone", age)];
        assert!(!lives(&gone(MINUTE), Some(DAY)), "its DEL is over");
        assert!(lives(&gone(DAY), Some(MINUTE)), "the kubelet has yet to take down what the reboot ended");
        assert!(!lives(&gone(DAY * 2), Some(DAY)), "nobody will any more");
        assert!(lives(&gone(DAY), None), "nobody knows when the node started");
        assert!(lives(&gone(Duration::ZERO), Some(MINUTE)), "a clock that was set back tells no age");
    }

    #[test]
    fn what_multus_attached_goes_by_the_sandbox() {
        let attached = entry(By::Multus, "", DAY);
        for (netns, want) in [("/run/netns/there", true), ("/run/netns/gone", false)] {
            let runtime = CachedFile { names_us: false, ..entry(By::Library, netns, DAY) };
            assert_eq!(lives(&[attached.clone(), runtime], Some(DAY * 7)), want, "{netns}");
        }
        assert!(!lives(&[attached], Some(DAY * 7)), "nothing of the sandbox is left");
        assert!(lives(&[entry(By::Multus, "", MINUTE)], Some(DAY * 7)), "it is being set up");
    }

    #[test]
    fn a_sandbox_counts_once_and_only_if_a_file_of_it_names_us() {
        let ours = entry(By::Multus, "", MINUTE);
        let result = entry(By::Library, "/run/netns/there", MINUTE);
        let other = CachedFile { sandbox: "d".to_owned(), names_us: false, ..result.clone() };
        let found = uses(&[ours, result, other], |_| Namespace::There, None);
        assert_eq!(found, Uses { live: 1, stale: 0 });
    }
}
