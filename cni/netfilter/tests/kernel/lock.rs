// SPDX-License-Identifier: Apache-2.0
//! The lock of the legacy tools, held by somebody else; tools that are old or not there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netfilter::iptables::{self, IptablesError, Variant};
use netfilter::program::{Options, Surroundings};
use netfilter::{Applied, Backend, Wish};
use nix::fcntl::{Flock, FlockArg};
use redirect::generate::ruleset;

use crate::backends::{config, do_program};
use crate::legacy::through;
use crate::world::World;
use crate::{Case, Needs};
use rig::link::up;
use rig::mounts;

pub(crate) const CASES: &[Case] = &[
    Case("a_held_lock_of_the_node_stops_nobody", Needs::ToolsAndUsers, node_lock),
    Case("a_held_lock_of_the_pod_stops_legacy_in_time_and_nobody_else", Needs::ToolsAndUsers, pod_lock),
    Case("old_tools_lock_a_file_of_the_pod_too", Needs::ToolsAndUsers, old_tools),
];

/// A program of `PATH`.
fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.exists()).unwrap()
}

/// Hides a tool from this thread.
pub(crate) fn hide(name: &str) {
    mounts::private();
    mounts::bind("/dev/null", tool(name));
}

/// Puts a script in a tool's place, for this thread.
pub(crate) fn replace(name: &str, script: &str) {
    let tool = tool(name).canonicalize().unwrap();
    mounts::private();
    mounts::tmpfs("/run");
    std::fs::write("/run/script", script).unwrap();
    std::fs::set_permissions("/run/script", std::fs::Permissions::from_mode(0o755)).unwrap();
    mounts::bind("/run/script", &tool);
}

/// Hides the node's `/run` from this thread, and holds the lock in the new one.
fn hold_node_lock() -> Flock<std::fs::File> {
    mounts::private();
    mounts::tmpfs("/run");
    let file = std::fs::File::create("/run/xtables.lock").unwrap();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap()
}

fn node_lock(world: World) {
    for backend in Backend::ALL {
        world.fresh(|| {
            up(&[]);
            let _held = hold_node_lock();
            let start = Instant::now();
            assert_eq!(do_program(config(), Wish::Only(backend)).applied, Applied::Created);
            assert!(start.elapsed() < Duration::from_secs(1), "{backend}: {:?}", start.elapsed());
        });
    }
}

/// The tools as if they were of a version that cannot be told which file to lock.
const OLD: &str = "#!/bin/sh
case \"$1\" in --version) echo 'iptables v1.8.4 (legacy)'; exit;; esac
unset XTABLES_LOCKFILE
exec REAL \"${0##*/}\" \"$@\"
";

fn old_tools(world: World) {
    let wanted = ruleset(&config()).unwrap();
    world.fresh(|| {
        let _held = hold_node_lock();
        let tool = tool("xtables-legacy-multi").canonicalize().unwrap();
        std::fs::copy(&tool, "/run/real").unwrap();
        std::fs::write("/run/old", OLD.replace("REAL", "/run/real")).unwrap();
        std::fs::set_permissions("/run/old", std::fs::Permissions::from_mode(0o755)).unwrap();
        mounts::bind("/run/old", &tool);
        let options = Options { deadline: Duration::from_millis(1800), ..Options::default() };
        let naked = Options { surroundings: Surroundings::Container, ..options };
        let error = iptables::apply(Variant::Legacy, &wanted, &naked).unwrap_err();
        assert!(matches!(error, IptablesError::Locked { lock: "/run/xtables.lock", .. }), "{error}");
        assert_eq!(through(Variant::Legacy, &wanted), Applied::Created, "another file is mounted over it");
    });
}

fn pod_lock(world: World) {
    let wanted = ruleset(&config()).unwrap();
    world.fresh(|| {
        up(&[]);
        let file = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        for backend in [Backend::NftCompat, Backend::Nft, Backend::IptablesNft] {
            do_program(config(), Wish::Only(backend));
        }
        for surroundings in [Surroundings::Node, Surroundings::Container] {
            let options =
                Options { surroundings, deadline: Duration::from_millis(1800), ..Options::default() };
            let start = Instant::now();
            let error = iptables::apply(Variant::Legacy, &wanted, &options).unwrap_err();
            assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
            assert!(error.is_retriable());
            let IptablesError::Locked { lock, holder, .. } = error else { panic!("{error}") };
            assert_eq!((lock, holder), ("/proc/self/ns/net", Some(std::process::id())));
        }
        drop(held);
        assert_eq!(through(Variant::Legacy, &wanted), Applied::Created);
    });
}
