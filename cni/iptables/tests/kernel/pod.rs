// SPDX-License-Identifier: Apache-2.0
//! The namespace of a pod, and runs of the binary in it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use rig::{link, netns};

/// UID and GID of the proxy.
#[derive(Clone, Copy)]
pub(crate) struct Proxy {
    pub(crate) id: u32,
}

/// The calling thread's namespace, which is the pod's.
#[derive(Clone, Copy)]
pub(crate) struct Pod {
    pub(crate) proxy: Proxy,
}

/// Captures everything.
pub(crate) const ALL: [&str; 6] = ["-i", "*", "-b", "*", "-m", "REDIRECT"];

/// Result of a validation.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) log: String,
}

impl Pod {
    /// Makes the calling thread's namespace a pod's.
    pub(crate) fn new(proxy: Proxy, addresses: &[&str]) -> Self {
        netns::enter_fresh();
        link::up(addresses);
        Self { proxy }
    }

    fn command(self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_istio-iptables"));
        // The iptables tools are looked for in PATH.
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .arg("istio-iptables")
            .args(["-u", &self.proxy.id.to_string()])
            .args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Programs it, as `istio-init` would.
    pub(crate) fn program(self, arguments: &[&str]) {
        let Output { status, stderr, .. } = self.command(arguments).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    }

    /// Validation by the proxy's user, as `istio-validation` would, ready to start. A user that is not root has no privileges.
    pub(crate) fn validation(self, arguments: &[&str]) -> Command {
        let mut command = self.command(&["--run-validation", "--skip-rule-apply", "--probe-timeout=1500ms"]);
        command.args(arguments).uid(self.proxy.id).gid(self.proxy.id);
        command
    }

    pub(crate) fn validate(self, arguments: &[&str]) -> Ran {
        ran(self.validation(arguments))
    }
}

/// Runs a command to its end.
pub(crate) fn ran(mut command: Command) -> Ran {
    let Output { status, stderr, .. } = command.output().unwrap();
    Ran { code: status.code(), log: String::from_utf8(stderr).unwrap() }
}

impl Ran {
    /// Fails with the log unless the run ended with `code` and logged `part`.
    pub(crate) fn expect(self, code: i32, part: &str) {
        assert_eq!(self.code, Some(code), "{}", self.log);
        assert!(self.log.contains(part), "no {part:?} in\n{}", self.log);
    }
}
