// SPDX-License-Identifier: Apache-2.0
//! A configuration as a call of the production binary `istio-iptables`, in the namespace of the calling thread.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use netfilter::Backend;
use redirect::Config;
use redirect::command_line::{check_groups, read_loopback};
use redirect::config::{Dns, Mode};
use redirect::host::Environment;
use redirect::list::Selection;

/// The variable that names the defect that a process plays. Only binaries that are built with defects look at it (`lab/mutants/protocol.rs`).
pub const MUTANT: &str = "MILLRACE_MUTANT";

/// The binary, and the defect that it is to play.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// The defect. Nothing else in this process plays it.
    pub mutant: Option<String>,
}

/// What a process says where it failed.
#[derive(Debug)]
pub struct Refusal(pub String);

impl Binary {
    /// Has it program a configuration.
    pub fn program(&self, config: &Config, backend: Backend) -> anyhow::Result<Result<(), Refusal>> {
        let mut command = Command::new(&self.path);
        command.args(arguments(config)).args(["--backend", backend.name()]);
        command.env_clear().envs(environment(config)).stdin(Stdio::null());
        if let Some(mutant) = &self.mutant {
            command.env(MUTANT, mutant);
        }
        let output = command.output().with_context(|| format!("cannot run {}", self.path.display()))?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        Ok(Err(Refusal(format!("istio-iptables ended with {}: {last}", output.status))))
    }
}

/// Whether a command line can ask for a configuration. It cannot ask for no user or group at all, and resolvers are read from a file.
#[must_use]
pub fn can_ask_for(config: &Config) -> bool {
    let has_proxy = !config.proxy_uids.is_empty() && !config.proxy_gids.is_empty();
    let loopback = read_loopback(&config.loopback.to_string()).is_ok();
    let dns = !matches!(config.dns, Dns::Servers { .. });
    has_proxy && loopback && dns && check_groups(&config.owner_groups_include).is_ok()
}

fn arguments(config: &Config) -> Vec<String> {
    let mut all = vec![
        format!("--envoy-port={}", config.proxy_port),
        format!("--inbound-capture-port={}", config.inbound_capture_port),
        format!("--inbound-tunnel-port={}", config.inbound_tunnel_port),
        format!("--proxy-uid={}", list(&config.proxy_uids)),
        format!("--proxy-gid={}", list(&config.proxy_gids)),
        format!("--istio-local-exclude-ports={}", list(&config.inbound_ports_exclude)),
        format!("--istio-exclude-interfaces={}", list(&config.exclude_interfaces)),
        format!("--kube-virt-interfaces={}", list(&config.virtual_interfaces)),
        format!("--istio-service-cidr={}", selection(&config.outbound_ranges_include)),
        format!("--istio-service-exclude-cidr={}", list(&config.outbound_ranges_exclude)),
        format!("--istio-outbound-ports={}", list(&config.outbound_ports_include)),
        format!("--istio-local-outbound-ports-exclude={}", list(&config.outbound_ports_exclude)),
        format!("--istio-inbound-tproxy-mark={}", config.tproxy_mark),
        format!("--istio-inbound-tproxy-route-table={}", config.tproxy_route_table),
        // The pod has addresses of both families, IPv4 first.
        format!("--dual-stack={}", config.ipv6),
        format!("--drop-invalid={}", config.drop_invalid),
        format!("--redirect-dns={}", config.dns.is_on()),
        format!("--capture-all-dns={}", config.dns == Dns::All),
    ];
    if config.mode == Mode::Tproxy {
        all.push("--istio-inbound-interception-mode=TPROXY".to_owned());
    }
    match &config.inbound_ports_include {
        None => {}
        // A comma is a list without elements; nothing at all would be no capture.
        Some(Selection::List(ports)) if ports.is_empty() => all.push("--istio-inbound-ports=,".to_owned()),
        Some(ports) => all.push(format!("--istio-inbound-ports={}", selection(ports))),
    }
    all
}

fn environment(config: &Config) -> [(&'static str, String); 3] {
    [
        (Environment::GROUPS, selection(&config.owner_groups_include)),
        (Environment::GROUPS_EXCLUDE, list(&config.owner_groups_exclude)),
        (Environment::LOOPBACK, config.loopback.to_string()),
    ]
}

fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn selection<T: Display>(items: &Selection<T>) -> String {
    match items {
        Selection::All => "*".to_owned(),
        Selection::List(items) => list(items),
    }
}
