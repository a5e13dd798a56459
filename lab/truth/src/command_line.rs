// SPDX-License-Identifier: Apache-2.0
//! A configuration as a call of `istio-iptables`; pure.

use std::fmt::Display;
use std::net::IpAddr;

use redirect::Config;
use redirect::command_line::{check_groups, read_loopback};
use redirect::config::{Dns, Mode};
use redirect::host::Environment;
use redirect::list::Selection;

/// A call of `istio-iptables`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Arguments.
    pub arguments: Vec<String>,
    /// Environment.
    pub environment: Vec<(&'static str, String)>,
    /// Name servers in `/etc/resolv.conf`.
    pub resolvers: Vec<IpAddr>,
}

impl CommandLine {
    /// The call that asks for a configuration; `None` if none can: there is no way to ask for no user or no group at all, and DNS capture
    /// without a resolver is none.
    #[must_use]
    pub fn of(config: &Config) -> Option<Self> {
        let has_proxy = !config.proxy_uids.is_empty() && !config.proxy_gids.is_empty();
        let loopback = read_loopback(&config.loopback.to_string()).is_ok();
        let resolvers: Vec<IpAddr> = match &config.dns {
            Dns::Servers { v4, v6 } => {
                v4.iter().copied().map(IpAddr::from).chain(v6.iter().copied().map(IpAddr::from)).collect()
            }
            Dns::Off | Dns::All => Vec::new(),
        };
        let resolves = !resolvers.is_empty() || !matches!(config.dns, Dns::Servers { .. });
        let possible =
            has_proxy && loopback && resolves && check_groups(&config.owner_groups_include).is_ok();
        possible.then(|| Self { arguments: arguments(config), environment: environment(config), resolvers })
    }
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

fn environment(config: &Config) -> Vec<(&'static str, String)> {
    vec![
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
