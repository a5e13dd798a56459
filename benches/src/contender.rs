// SPDX-License-Identifier: Apache-2.0
//! Ways to set up a pod. Here those that are processes: one (or two) that is started, gets its input and ends, timed from spawn to
//! exit. Those in process are in [`crate::in_process`].

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::pod::PodNamespace;

/// Timed way to set up a pod.
pub trait SetUp: Sync {
    /// Name in reports.
    fn name(&self) -> &str;

    /// Sets up one pod; returns the duration.
    fn set_up(&self, pod: &PodNamespace) -> Result<Duration>;
}

/// Stands for the path of the pod's namespace in arguments and environment.
pub const NETNS: &str = "{netns}";

/// A process to run.
#[derive(Debug, Clone, Default)]
pub struct Process {
    pub binary: String,
    /// Arguments; [`NETNS`] is replaced.
    pub arguments: Vec<String>,
    /// The whole environment; [`NETNS`] is replaced.
    pub env: Vec<(String, String)>,
    /// Standard input.
    pub input: Vec<u8>,
}

impl Process {
    /// Fills in the namespace.
    #[must_use]
    pub fn in_namespace(&self, netns: &str) -> Self {
        Self {
            arguments: self.arguments.iter().map(|value| value.replace(NETNS, netns)).collect(),
            env: self.env.iter().map(|(key, value)| (key.clone(), value.replace(NETNS, netns))).collect(),
            ..self.clone()
        }
    }

    pub fn run(&self) -> Result<()> {
        let mut child = Command::new(&self.binary)
            .args(&self.arguments)
            .env_clear()
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", self.binary))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&self.input).ok(); // the floor reads nothing
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{} {}: {}", self.binary, output.status, String::from_utf8_lossy(&output.stdout));
        }
        Ok(())
    }
}

/// Namespace in which a contender's processes start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// In the node's namespace; they enter the pod's themselves.
    Node,
    /// In the pod's namespace already: flatters them by what entering costs.
    Pod,
}

/// A named way to set up a pod.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Name in reports.
    pub name: String,
    /// Namespace in which its processes start.
    pub place: Where,
    /// Processes, one after the other.
    pub processes: Vec<Process>,
}

impl SetUp for Contender {
    fn name(&self) -> &str {
        &self.name
    }

    fn set_up(&self, pod: &PodNamespace) -> Result<Duration> {
        let path = pod.path();
        let processes: Vec<Process> =
            self.processes.iter().map(|process| process.in_namespace(&path)).collect();
        let timed = || -> Result<Duration> {
            let start = Instant::now();
            processes.iter().try_for_each(Process::run)?;
            Ok(start.elapsed())
        };
        match self.place {
            Where::Node => timed(),
            Where::Pod => pod.inside(timed)?,
        }
        .with_context(|| self.name.clone())
    }
}

#[must_use]
pub fn floor(binary: &Path) -> Contender {
    let process =
        Process { binary: binary.display().to_string(), arguments: vec![NETNS.into()], ..Process::default() };
    Contender { name: "floor".into(), place: Where::Node, processes: vec![process] }
}

/// The iptables tools of a variant (`nft`, `legacy`) with the rules' text; `None` where they are not installed. Without text for
/// IPv6 only the one for IPv4.
#[must_use]
pub fn restore(variant: &str, v4: String, v6: Option<String>) -> Option<Contender> {
    let restore = |tool: &str, text| tool_process(&format!("{tool}-{variant}-restore"), "--noflush", text);
    let mut processes = vec![restore("iptables", v4)?];
    let families = if v6.is_some() { " v4+v6" } else { "" };
    if let Some(text) = v6 {
        processes.push(restore("ip6tables", text)?);
    }
    Some(Contender { name: format!("iptables-{variant}-restore{families}"), place: Where::Pod, processes })
}

/// `nft -f` with the native rules' text; `None` where it is not installed.
#[must_use]
pub fn nft(text: String) -> Option<Contender> {
    let processes = vec![tool_process("nft", "-f-", text)?];
    Some(Contender { name: "nft -f".into(), place: Where::Pod, processes })
}

fn tool_process(tool: &str, argument: &str, text: String) -> Option<Process> {
    let path = std::env::var_os("PATH")?;
    let binary = std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|file| file.exists())?;
    Some(Process {
        binary: binary.display().to_string(),
        arguments: vec![argument.into()],
        input: text.into_bytes(),
        ..Process::default()
    })
}

/// A CNI plugin's ADD (or another command) with a configuration.
#[must_use]
pub fn plugin(
    name: &str,
    binary: &Path,
    command: &str,
    pod: (&str, &str),
    netconf: &serde_json::Value,
) -> Contender {
    let (namespace, pod) = pod;
    let env = [
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", "bench"),
        ("CNI_NETNS", NETNS),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
        (
            "CNI_ARGS",
            &format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod};K8S_POD_UID=u"),
        ),
        ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let process = Process {
        binary: binary.display().to_string(),
        env: env.to_vec(),
        input: netconf.to_string().into_bytes(),
        ..Process::default()
    };
    Contender { name: name.into(), place: Where::Node, processes: vec![process] }
}
