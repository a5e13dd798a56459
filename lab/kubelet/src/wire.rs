// SPDX-License-Identifier: Apache-2.0
//! The network between nodes: a router in a namespace of its own, a link to each node, and one to a host outside of the cluster. The router
//! knows which pods are behind which node, as the routes of a cloud's network do. The host knows the nodes only.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::Transport;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::netns::{self, Namespace, NamespaceRole};
use crate::options::{ClusterOptions, Names};
use crate::process::{Process, Program};

/// Addresses of the host outside.
pub const OUTSIDE: [&str; 2] = ["203.0.113.10", "2001:db8:113::10"];
/// Ports that it answers on.
const PORTS: [&str; 3] = ["tcp:443", "tcp:8080", "udp:8080"];
/// The router's end of each link.
const BESIDE: [&str; 2] = ["169.254.250.1", "fe80::fa:1"];
/// Link-local address of the other end of each link.
const LINK_LOCAL: &str = "fe80::fa:2";
/// All nodes.
const NODES: [&str; 2] = ["10.250.0.0/16", "fd00:250::/32"];
/// Everything of the cluster.
const CLUSTER: [&str; 2] = ["10.0.0.0/8", "fd00::/8"];

/// Address of a service, and of what is behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Translation {
    pub transport: Transport,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Addresses of a node.
#[must_use]
pub fn addresses(number: u8) -> [String; 2] {
    [format!("10.250.0.{number}"), format!("fd00:250::{number}")]
}

/// Ranges of a network on the node of this number, one for each family.
#[must_use]
pub fn ranges(network: u8, node: u8) -> [String; 2] {
    [format!("10.{network}.{node}.0/24"), format!("fd00:{network}:{node}::/64")]
}

#[derive(Debug)]
pub struct Wire {
    workload: PathBuf,
    /// Of each process. As long as a plugin's call: that lays links, too.
    deadline: Duration,
    pods_are_routed: bool,
    names: Names,
    /// Ends before its namespace.
    host: Option<Process>,
    outside: Option<Namespace>,
    router: Namespace,
}

impl Wire {
    /// Makes a router in the cluster's directory, with nothing linked to it.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn create(options: &ClusterOptions) -> Result<Self, Error> {
        let path = options.directory.join("router.netns");
        let router = Namespace::create(&path, NamespaceRole::Node).await?;
        netns::set_loopback_up(router.path()).await?;
        let (workload, deadline) = (options.binaries.workload.clone(), options.deadlines.plugin);
        Ok(Self {
            workload,
            deadline,
            pods_are_routed: options.node.pods_are_routed,
            names: options.names.clone(),
            host: None,
            outside: None,
            router,
        })
    }

    /// Links a node, which translates these.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn join(&self, node: &Path, number: u8, services: &[Translation]) -> Result<(), Error> {
        let behind = [self.names.pods, self.names.second].map(|network| ranges(network, number)).concat();
        let mut args = self.link(&format!("node-{number}"), &addresses(number), &[], &behind);
        args.extend(["--translate".to_owned(), translations(services, &self.masqueraded(number))]);
        run(&Program::new(&self.workload, args), node, &[], self.deadline).await
    }

    /// Makes the host outside, which answers on some ports.
    ///
    /// # Errors
    /// The kernel refuses it, or it does not come up.
    pub async fn add_outside(&mut self, directory: &Path) -> Result<(), Error> {
        let outside = Namespace::create(&directory.join("outside.netns"), NamespaceRole::Pod).await?;
        netns::set_loopback_up(outside.path()).await?;
        let reach: &[&str] = if self.pods_are_routed { &[] } else { &NODES };
        let reach: Vec<_> = reach.iter().map(|range| (*range).to_owned()).collect();
        let args = self.link("outside", &OUTSIDE.map(str::to_owned), &reach, &[]);
        run(&Program::new(&self.workload, args), outside.path(), &[], self.deadline).await?;
        let ports = PORTS.iter().flat_map(|port| ["--listen", port]);
        let program = Program::new(&self.workload, ["app"].into_iter().chain(ports));
        let host = Process::start(&program, outside.path()).await?;
        if let Some(exit) = host.ready(self.deadline).await? {
            return Err(Error::Process {
                program: self.workload.clone(),
                why: format!("ended with {exit:?}"),
            });
        }
        (self.host, self.outside) = (Some(host), Some(outside));
        Ok(())
    }

    /// Replaces what a node translates: addresses of services, and those of its own pods where they leave the cluster.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn translate(&self, node: &Path, number: u8, services: &[Translation]) -> Result<(), Error> {
        self.replace(node, services, &self.masqueraded(number)).await
    }

    /// A node translates nothing any more, as after its boot.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn forget(&self, node: &Path) -> Result<(), Error> {
        self.replace(node, &[], &[]).await
    }

    async fn replace(
        &self,
        node: &Path,
        services: &[Translation],
        masqueraded: &[Value],
    ) -> Result<(), Error> {
        let program = Program::new(&self.workload, ["translate"]);
        run(&program, node, translations(services, masqueraded).as_bytes(), self.deadline).await
    }

    fn masqueraded(&self, number: u8) -> Vec<Value> {
        if self.pods_are_routed {
            return Vec::new();
        }
        let pods = ranges(self.names.pods, number).into_iter();
        usable(pods.zip(CLUSTER)).map(|(pods, cluster)| json!({ "pods": pods, "cluster": cluster })).collect()
    }

    /// Ends the host outside.
    pub async fn stop(&self) {
        if let Some(host) = &self.host {
            host.kill().await;
        }
    }

    /// Arguments of the program that links a namespace.
    fn link(&self, name: &str, own: &[String; 2], reach: &[String], behind: &[String]) -> Vec<String> {
        let mut args = vec!["wire".to_owned(), "--name".to_owned(), name.to_owned()];
        args.extend(["--to".to_owned(), self.router.path().display().to_string()]);
        for (own, beside) in usable(own.iter().cloned().zip(BESIDE)) {
            args.extend(["--lane".to_owned(), format!("{own}={beside}")]);
        }
        if has_ipv6() {
            args.extend(["--own".to_owned(), LINK_LOCAL.to_owned()]);
        }
        for (option, ranges) in [("--reach", reach), ("--behind", behind)] {
            for range in ranges.iter().filter(|range| has_ipv6() || !range.contains(':')) {
                args.extend([option.to_owned(), range.clone()]);
            }
        }
        args
    }
}

fn translations(services: &[Translation], masqueraded: &[Value]) -> String {
    json!({ "services": services, "masqueraded": masqueraded }).to_string()
}

async fn run(program: &Program, netns: &Path, input: &[u8], deadline: Duration) -> Result<(), Error> {
    let output = program.finish(netns, input, deadline).await?;
    if output.status.success() {
        return Ok(());
    }
    let why = format!("{:?}: {}", program.args, String::from_utf8_lossy(&output.stderr));
    Err(Error::Process { program: program.path.clone(), why })
}

/// Pairs that this kernel can have.
fn usable<T>(pairs: impl Iterator<Item = (String, T)>) -> impl Iterator<Item = (String, T)> {
    pairs.filter(|(text, _)| has_ipv6() || !text.contains(':'))
}

pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}
