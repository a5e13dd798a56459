// SPDX-License-Identifier: Apache-2.0
//! `scenarios/rules/`: configurations in upstream's own field names.

use std::net::{Ipv4Addr, Ipv6Addr};

use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::list;
use redirect::ruleset::{Dialect, Family};
use redirect::text;
use serde::Deserialize;

use crate::restore::{Tables, difference, first_difference, normal, recorded, tables, wanted};

#[derive(Deserialize)]
struct Case {
    name: String,
    config: Fields,
    ipv4: Tables,
    #[serde(default)]
    ipv6: Tables,
    /// The commands of the native transaction.
    nft: Vec<String>,
}

/// An absent field stands for its default.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
struct Fields {
    proxy_port: Option<String>,
    inbound_capture_port: Option<String>,
    inbound_tunnel_port: Option<String>,
    #[serde(rename = "ProxyUID")]
    proxy_uid: Option<String>,
    #[serde(rename = "ProxyGID")]
    proxy_gid: Option<String>,
    inbound_interception_mode: String,
    #[serde(rename = "InboundTProxyMark")]
    inbound_tproxy_mark: Option<String>,
    #[serde(rename = "InboundTProxyRouteTable")]
    inbound_tproxy_route_table: Option<String>,
    inbound_ports_include: String,
    inbound_ports_exclude: String,
    owner_groups_include: Option<String>,
    owner_groups_exclude: String,
    outbound_ports_include: String,
    outbound_ports_exclude: String,
    #[serde(rename = "OutboundIPRangesInclude")]
    outbound_ranges_include: String,
    #[serde(rename = "OutboundIPRangesExclude")]
    outbound_ranges_exclude: String,
    reroute_virtual_interfaces: String,
    exclude_interfaces: String,
    #[serde(rename = "HostIPv4LoopbackCidr")]
    loopback: Option<String>,
    #[serde(rename = "RedirectDNS")]
    redirect_dns: bool,
    #[serde(rename = "CaptureAllDNS")]
    capture_all_dns: bool,
    #[serde(rename = "DNSServersV4")]
    dns_servers_v4: Vec<Ipv4Addr>,
    #[serde(rename = "DNSServersV6")]
    dns_servers_v6: Vec<Ipv6Addr>,
    drop_invalid: bool,
    #[serde(rename = "EnableIPv6")]
    enable_ipv6: bool,
    /// Input of IPv6 detection; `EnableIPv6` is the result.
    #[serde(rename = "DualStack")]
    _dual_stack: bool,
    #[serde(rename = "DryRun")]
    _dry_run: bool,
}

impl Fields {
    fn config(&self, dialect: Dialect) -> Config {
        let default = Config::default();
        let number =
            |text: &Option<String>, default: u32| text.as_ref().map_or(default, |text| text.parse().unwrap());
        let port = |text, default: u16| u16::try_from(number(text, default.into())).unwrap();
        let ids = |text: &Option<String>| text.as_ref().map(|text| list::ids(text));
        Config {
            dialect,
            ipv6: self.enable_ipv6,
            mode: if self.inbound_interception_mode == "TPROXY" { Mode::Tproxy } else { Mode::Redirect },
            proxy_port: port(&self.proxy_port, default.proxy_port),
            inbound_capture_port: port(&self.inbound_capture_port, default.inbound_capture_port),
            inbound_tunnel_port: port(&self.inbound_tunnel_port, default.inbound_tunnel_port),
            proxy_uids: ids(&self.proxy_uid).unwrap_or(default.proxy_uids),
            proxy_gids: ids(&self.proxy_gid).unwrap_or(default.proxy_gids),
            inbound_ports_include: list::inbound_ports(&self.inbound_ports_include),
            inbound_ports_exclude: list::ports(&self.inbound_ports_exclude),
            exclude_interfaces: list::interfaces(&self.exclude_interfaces),
            virtual_interfaces: list::interfaces(&self.reroute_virtual_interfaces),
            outbound_ranges_include: list::ranges(&self.outbound_ranges_include).unwrap(),
            outbound_ranges_exclude: list::cidrs(&self.outbound_ranges_exclude).unwrap(),
            outbound_ports_include: list::ports(&self.outbound_ports_include),
            outbound_ports_exclude: list::ports(&self.outbound_ports_exclude),
            owner_groups_include: self
                .owner_groups_include
                .as_deref()
                .map_or(default.owner_groups_include, list::groups),
            owner_groups_exclude: list::ids(&self.owner_groups_exclude),
            loopback: self.loopback.as_ref().map_or(default.loopback, |text| list::cidrs(text).unwrap()[0]),
            dns: match (self.redirect_dns, self.capture_all_dns) {
                (false, _) => Dns::Off,
                (true, true) => Dns::All,
                (true, false) => {
                    Dns::Servers { v4: self.dns_servers_v4.clone(), v6: self.dns_servers_v6.clone() }
                }
            },
            drop_invalid: self.drop_invalid,
            tproxy_mark: number(&self.inbound_tproxy_mark, default.tproxy_mark),
            tproxy_route_table: number(&self.inbound_tproxy_route_table, default.tproxy_route_table),
        }
    }
}

fn run(file: &str, count: usize) {
    let cases: Vec<Case> = recorded(file);
    assert_eq!(cases.len(), count);
    let mut differences = Vec::new();
    for case in &cases {
        let ruleset = ruleset(&case.config.config(Dialect::Iptables)).unwrap();
        for (family, want) in [(Family::V4, &case.ipv4), (Family::V6, &case.ipv6)] {
            if let Some(difference) = difference(&tables(&ruleset, family), &wanted(want)) {
                differences.push(format!("{} {family:?} {difference}", case.name));
            }
        }
    }
    assert!(differences.is_empty(), "{}/{count} differ:\n{}", differences.len(), differences.join("\n"));
}

fn run_native(file: &str, count: usize) {
    let cases: Vec<Case> = recorded(file);
    assert_eq!(cases.len(), count);
    let mut differences = Vec::new();
    for case in &cases {
        let ruleset = ruleset(&case.config.config(Dialect::Nft)).unwrap();
        let got: Vec<String> = text::native(&ruleset.as_upstream()).lines().map(normal).collect();
        let want: Vec<String> = case.nft.iter().map(|line| normal(line)).collect();
        assert!(!want.is_empty(), "{} has no native commands", case.name);
        if let Some(difference) = first_difference(&got, &want) {
            differences.push(format!("{} {difference}", case.name));
        }
    }
    assert!(differences.is_empty(), "{}/{count} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn every_chosen_configuration_gives_upstream_s_rules() {
    run("rules/cases.json", 17);
}

#[test]
fn every_random_configuration_gives_upstream_s_rules() {
    run("rules/random.json", 100);
}

#[test]
fn every_chosen_configuration_gives_upstream_s_native_commands() {
    run_native("rules/cases.json", 17);
}

#[test]
fn every_random_configuration_gives_upstream_s_native_commands() {
    run_native("rules/random.json", 100);
}
