// SPDX-License-Identifier: Apache-2.0
//! Where the plugin finds what the agent left for it. Configurations of today name one directory; those written before
//! 1.24 name each file.

use std::path::{Path, PathBuf};

use super::NetConf;
use crate::agent;

const KUBECONFIG: &str = "istio-cni-kubeconfig";
const LOG_SOCKET: &str = "log.sock";
/// The record of which back end is right for this node, in the run directory.
pub const BACKEND_RECORD: &str = "backend";
const LOG_FILE: &str = "istio-cni.log";

impl NetConf {
    /// The run directory: `cni_agent_run_dir`, else where the old keys put the agent's sockets, else empty, which makes the
    /// paths relative.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        if !self.run_dir.is_empty() {
            return Path::new(&self.run_dir);
        }
        let sockets = [&self.old.log_uds_address, &self.old.cni_event_address];
        sockets.into_iter().find_map(|socket| Path::new(socket).parent()).unwrap_or(Path::new(""))
    }

    /// True if it says where the agent is: without that nobody is asked, told or logged to.
    #[must_use]
    pub fn knows_agent(&self) -> bool {
        !self.run_dir().as_os_str().is_empty()
    }

    /// Credentials for the API server.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.path(KUBECONFIG, &self.old.kubeconfig)
    }

    /// Socket of the agent that takes log lines.
    #[must_use]
    pub fn log_socket(&self) -> PathBuf {
        self.path(LOG_SOCKET, &self.old.log_uds_address)
    }

    /// Socket of the agent that answers requests ([`crate::agent`]).
    #[must_use]
    pub fn agent_socket(&self) -> PathBuf {
        self.run_dir().join(agent::SOCKET)
    }

    /// File with the agent's record of this node's back end.
    #[must_use]
    pub fn backend_record(&self) -> PathBuf {
        self.run_dir().join(BACKEND_RECORD)
    }

    /// Rolling log file.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.run_dir().join(LOG_FILE)
    }

    /// `name` in the run directory; without `cni_agent_run_dir` what the old key says, if anything.
    fn path(&self, name: &str, old: &str) -> PathBuf {
        if self.run_dir.is_empty() && !old.is_empty() {
            PathBuf::from(old)
        } else {
            self.run_dir().join(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(mut keys: serde_json::Value) -> [PathBuf; 5] {
        keys["name"] = "n".into();
        let conf = NetConf::parse(keys.to_string().as_bytes()).unwrap();
        [conf.kubeconfig(), conf.log_socket(), conf.agent_socket(), conf.backend_record(), conf.log_file()]
    }

    #[test]
    fn everything_is_in_the_run_directory() {
        let want = [
            "/run/x/istio-cni-kubeconfig",
            "/run/x/log.sock",
            "/run/x/agent.sock",
            "/run/x/backend",
            "/run/x/istio-cni.log",
        ];
        assert_eq!(paths(json!({"cni_agent_run_dir": "/run/x"})), want.map(PathBuf::from));
        let both = json!({"cni_agent_run_dir": "/run/x", "log_uds_address": "/old/l", "kubernetes": {"kubeconfig": "/k"}});
        assert_eq!(paths(both), want.map(PathBuf::from));
    }

    #[test]
    fn old_keys_name_each_file_and_show_the_directory() {
        let old = json!({
            "log_uds_address": "/var/run/istio-cni/l.sock",
            "cni_event_address": "/var/run/other/e.sock",
            "kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig"}
        });
        let want = [
            "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig",
            "/var/run/istio-cni/l.sock",
            "/var/run/istio-cni/agent.sock",
            "/var/run/istio-cni/backend",
            "/var/run/istio-cni/istio-cni.log",
        ];
        assert_eq!(paths(old), want.map(PathBuf::from));
        assert_eq!(paths(json!({"cni_event_address": "/e/e.sock"}))[2], Path::new("/e/agent.sock"));
    }

    #[test]
    fn keys_of_any_time_tell_of_an_agent() {
        let knows = |keys: &str| NetConf::parse(keys.as_bytes()).unwrap().knows_agent();
        assert!(knows(r#"{"name":"n","cni_agent_run_dir":"/run/x"}"#));
        assert!(knows(r#"{"name":"n","log_uds_address":"/run/x/log.sock"}"#));
        assert!(!knows(r#"{"name":"n","kubernetes":{"kubeconfig":"/k"}}"#));
    }

    #[test]
    fn without_any_key_paths_are_relative() {
        let want = ["istio-cni-kubeconfig", "log.sock", "agent.sock", "backend", "istio-cni.log"];
        assert_eq!(paths(json!({})), want.map(PathBuf::from));
    }
}
