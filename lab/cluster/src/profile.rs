// SPDX-License-Identifier: Apache-2.0
//! Container runtimes, as far as a node and its CNI plugins notice which one it is. Facts only; `lab/kubelet` acts on them.
//! Where each is known from: docs/lab.md, "Container runtimes".

use std::fmt;
use std::str::FromStr;

/// A container runtime with its version.
#[derive(Debug, PartialEq, Eq)]
pub struct RuntimeProfile {
    /// Name in features.
    pub name: &'static str,
    /// `containerRuntimeVersion` of a node's status.
    pub version: &'static str,
    /// When it reads the configuration directory again.
    pub rereads: Rereads,
    /// What a file does that cannot be used and comes before one that can.
    pub unusable: Unusable,
    /// Configuration while the directory has no usable one.
    pub without: Without,
    /// Configuration of DEL and CHECK.
    pub teardown: Teardown,
    /// What becomes of a sandbox whose DEL failed.
    pub failed_teardown: FailedTeardown,
    /// Its verdict on a result without an address on the pod's first interface.
    pub addressless: Addressless,
    /// Message of a runtime that has no configuration; `{}` is the directory.
    pub no_network: &'static str,
    /// Message of `NetworkReady=false`; `{}` is the reason.
    pub not_ready: &'static str,
    /// Calls of STATUS, of lists whose version has it (1.1.0).
    pub status: Calls,
    /// CHECK after each ADD, and of each sandbox when the runtime starts.
    pub check: Calls,
    /// GC of each network when the runtime starts; before it, DEL of cached attachments that no sandbox has.
    pub gc: Calls,
    /// Form of an entry of the result cache.
    pub cache: CacheLayout,
    /// Plugins get the pod's UID.
    pub pod_uid: PodUid,
    /// When `lo` of a sandbox is set up.
    pub loopback: Loopback,
    /// `CNI_NETNS` of a sandbox.
    pub namespaces: Namespaces,
}

/// Namespace of a sandbox as plugins are told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// A file below `/var/run/netns`, which keeps it.
    Kept,
    /// `/proc/PID/ns/net` of the pause process (`dockerNetNSFmt`); nothing else keeps it.
    OfPause,
}

/// Whether a runtime makes a call at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// It does.
    Made,
    /// It does not.
    Never,
}

/// Calls for another look at the configuration directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rereads {
    /// inotify: files that are written, renamed within the directory, or removed. One that is moved there from another directory is
    /// only created, and creations are ignored.
    Written(Removed),
    /// inotify: files that are created, written or renamed, there or among the binaries, and the removal of the file in use.
    CreatedOrWritten,
    /// None: it looks every five seconds.
    EveryFiveSeconds,
}

/// Fate of the watch when the directory itself is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It is looked for every five seconds, and watched again.
    LookedFor,
    /// Nobody watches any more, until the runtime is restarted.
    Lost,
}

/// Effect of a configuration file that cannot be used on those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// There is no network, whatever comes after it.
    Fatal,
    /// The next file counts. A list is unusable as well when a binary of it is missing.
    Skipped,
}

/// Configuration that a runtime goes on with when none is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// None.
    Nothing,
    /// The last one that was.
    Former,
}

/// Source of the configuration of DEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teardown {
    /// The loaded one, whichever the sandbox was set up with; only the result is the cached one. Errors that contain one of these words
    /// count as success: a plugin that finds nothing any more.
    Loaded {
        /// Always.
        pardons: &'static [&'static str],
        /// If the namespace is gone.
        pardons_without_netns: &'static [&'static str],
    },
    /// The cached one of the sandbox; the loaded one if there is none.
    Cached,
}

/// Second thoughts after a failed DEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedTeardown {
    /// DEL is called again whenever the kubelet asks, until it succeeds.
    Repeated,
    /// The failure is reported once and DEL never called again; without a namespace it is not even reported.
    GivenUp,
}

/// Verdict on a result without an address on the pod's first interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressless {
    /// The sandbox failed.
    Rejected,
    /// The pod runs, and has none.
    Accepted,
}

/// Layout of a result cache's entry by libcni's version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheLayout {
    /// With the path of the sandbox' namespace.
    #[default]
    WithNetns,
    /// Without it: versions before 1.2.
    WithoutNetns,
}

/// Pod's UID among the arguments of plugins (`K8S_POD_UID`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodUid {
    /// Passed.
    Passed,
    /// Withheld.
    Withheld,
}

/// Setting up of a sandbox's `lo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// Before the pod's network.
    First,
    /// At the same time: either may come first.
    Beside,
}

/// What go-cni takes for the success of a DEL.
const GO_CNI: Teardown =
    Teardown::Loaded { pardons: &["not found"], pardons_without_netns: &["no such file or directory"] };

impl RuntimeProfile {
    /// containerd 1.6 (1.6.20; go-cni 1.1.6).
    pub const CONTAINERD_1_6: Self = Self {
        name: "containerd-1.6",
        version: "containerd://1.6.20",
        rereads: Rereads::Written(Removed::Lost),
        unusable: Unusable::Fatal,
        without: Without::Nothing,
        teardown: GO_CNI,
        failed_teardown: FailedTeardown::Repeated,
        addressless: Addressless::Rejected,
        no_network: "cni plugin not initialized",
        not_ready: "Network plugin returns error: {}",
        status: Calls::Never,
        check: Calls::Never,
        gc: Calls::Never,
        cache: CacheLayout::WithoutNetns,
        pod_uid: PodUid::Passed,
        loopback: Loopback::Beside,
        namespaces: Namespaces::Kept,
    };
    /// containerd 2 (2.4.2).
    pub const CONTAINERD_2: Self = Self {
        name: "containerd-2",
        version: "containerd://2.4.2",
        rereads: Rereads::Written(Removed::LookedFor),
        status: Calls::Made,
        cache: CacheLayout::WithNetns,
        ..Self::CONTAINERD_1_6
    };
    /// CRI-O (1.36.1; ocicni 0.5.0).
    pub const CRI_O: Self = Self {
        name: "cri-o",
        version: "cri-o://1.36.1",
        rereads: Rereads::CreatedOrWritten,
        unusable: Unusable::Skipped,
        without: Without::Nothing,
        teardown: Teardown::Cached,
        failed_teardown: FailedTeardown::GivenUp,
        addressless: Addressless::Accepted,
        no_network: "no CNI configuration file in {}/. Has your network provider started?",
        not_ready: "Network plugin returns error: {}",
        status: Calls::Made,
        check: Calls::Made,
        gc: Calls::Made,
        cache: CacheLayout::WithNetns,
        pod_uid: PodUid::Passed,
        loopback: Loopback::First,
        namespaces: Namespaces::Kept,
    };
    /// cri-dockerd (0.3; libcni 1.1.2).
    pub const CRI_DOCKERD: Self = Self {
        name: "cri-dockerd",
        version: "docker://25.0.14",
        rereads: Rereads::EveryFiveSeconds,
        unusable: Unusable::Skipped,
        without: Without::Former,
        teardown: Teardown::Loaded { pardons: &["no such file or directory"], pardons_without_netns: &[] },
        failed_teardown: FailedTeardown::Repeated,
        addressless: Addressless::Accepted,
        no_network: "cni config uninitialized",
        not_ready: "docker: network plugin is not ready: {}",
        status: Calls::Never,
        check: Calls::Never,
        gc: Calls::Never,
        cache: CacheLayout::WithoutNetns,
        pod_uid: PodUid::Withheld,
        loopback: Loopback::First,
        namespaces: Namespaces::OfPause,
    };

    /// All of them.
    pub const ALL: [&'static Self; 4] =
        [&Self::CONTAINERD_1_6, &Self::CONTAINERD_2, &Self::CRI_O, &Self::CRI_DOCKERD];
}

impl Default for &'static RuntimeProfile {
    fn default() -> Self {
        &RuntimeProfile::CONTAINERD_2
    }
}

impl fmt::Display for RuntimeProfile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

/// Unknown name of a container runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no container runtime: containerd-1.6, containerd-2, cri-o, cri-dockerd")]
pub struct UnknownRuntime(pub String);

impl FromStr for &'static RuntimeProfile {
    type Err = UnknownRuntime;

    fn from_str(text: &str) -> Result<Self, UnknownRuntime> {
        let found = RuntimeProfile::ALL.into_iter().find(|profile| profile.name == text);
        found.ok_or_else(|| UnknownRuntime(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_is_found_by_its_name_and_others_are_named_with_those_that_there_are() {
        for profile in RuntimeProfile::ALL {
            assert_eq!(profile.name.parse(), Ok(profile));
        }
        let error = "rkt".parse::<&RuntimeProfile>().unwrap_err().to_string();
        assert!(RuntimeProfile::ALL.iter().all(|profile| error.contains(profile.name)), "{error}");
    }
}
