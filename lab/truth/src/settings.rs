// SPDX-License-Identifier: Apache-2.0
//! A configuration as the reference corpora write it: upstream's field names, lists as comma texts.

use std::net::{Ipv4Addr, Ipv6Addr};

use redirect::config::{Config, Dns, Mode};
use redirect::go::PrefixError;
use redirect::list;
use redirect::ruleset::Id;
use serde::Deserialize;

/// An absent field stands for its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are upstream's own")]
pub struct Settings {
    pub proxy_port: Option<Text>,
    pub inbound_capture_port: Option<Text>,
    pub inbound_tunnel_port: Option<Text>,
    #[serde(rename = "ProxyUID")]
    pub proxy_uid: Option<Text>,
    #[serde(rename = "ProxyGID")]
    pub proxy_gid: Option<Text>,
    pub inbound_interception_mode: String,
    #[serde(rename = "InboundTProxyMark")]
    pub inbound_tproxy_mark: Option<Text>,
    #[serde(rename = "InboundTProxyRouteTable")]
    pub inbound_tproxy_route_table: Option<Text>,
    pub inbound_ports_include: Text,
    pub inbound_ports_exclude: Text,
    pub owner_groups_include: Option<Text>,
    pub owner_groups_exclude: Text,
    pub outbound_ports_include: Text,
    pub outbound_ports_exclude: Text,
    #[serde(rename = "OutboundIPRangesInclude")]
    pub outbound_ranges_include: String,
    #[serde(rename = "OutboundIPRangesExclude")]
    pub outbound_ranges_exclude: String,
    pub reroute_virtual_interfaces: String,
    pub exclude_interfaces: String,
    #[serde(rename = "HostIPv4LoopbackCidr")]
    pub loopback: Option<String>,
    #[serde(rename = "RedirectDNS")]
    pub redirect_dns: bool,
    #[serde(rename = "CaptureAllDNS")]
    pub capture_all_dns: bool,
    #[serde(rename = "DNSServersV4")]
    pub dns_servers_v4: Vec<Ipv4Addr>,
    #[serde(rename = "DNSServersV6")]
    pub dns_servers_v6: Vec<Ipv6Addr>,
    pub drop_invalid: bool,
    #[serde(rename = "EnableIPv6")]
    pub enable_ipv6: bool,
    /// Input of IPv6 detection; `EnableIPv6` is the result.
    #[serde(rename = "DualStack")]
    _dual_stack: bool,
    #[serde(rename = "DryRun")]
    _dry_run: bool,
}

/// A text that YAML may spell as a number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Scalar")]
pub struct Text(pub String);

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(u64),
    Text(String),
}

impl From<Scalar> for Text {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Number(number) => Self(number.to_string()),
            Scalar::Text(text) => Self(text),
        }
    }
}

/// Settings that no configuration can be made of.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A list of prefixes holds something else.
    #[error("read a list of prefixes")]
    Prefix(#[from] PrefixError),
    /// A port, a mark or a table is not a number that fits.
    #[error("read a number")]
    Number(#[from] std::num::ParseIntError),
    /// The loopback prefix is empty.
    #[error("read the loopback prefix: it is empty")]
    NoLoopback,
}

impl Settings {
    /// The configuration.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn config(&self) -> Result<Config, SettingsError> {
        let default = Config::default();
        let ids =
            |text: &Option<Text>, default: Vec<Id>| text.as_ref().map_or(default, |text| list::ids(&text.0));
        let loopback = match &self.loopback {
            None => default.loopback,
            Some(text) => *list::cidrs(text)?.first().ok_or(SettingsError::NoLoopback)?,
        };
        Ok(Config {
            dialect: default.dialect,
            ipv6: self.enable_ipv6,
            mode: if self.inbound_interception_mode == "TPROXY" { Mode::Tproxy } else { Mode::Redirect },
            proxy_port: number(self.proxy_port.as_ref(), default.proxy_port)?,
            inbound_capture_port: number(self.inbound_capture_port.as_ref(), default.inbound_capture_port)?,
            inbound_tunnel_port: number(self.inbound_tunnel_port.as_ref(), default.inbound_tunnel_port)?,
            proxy_uids: ids(&self.proxy_uid, default.proxy_uids),
            proxy_gids: ids(&self.proxy_gid, default.proxy_gids),
            inbound_ports_include: list::inbound_ports(&self.inbound_ports_include.0),
            inbound_ports_exclude: list::ports(&self.inbound_ports_exclude.0),
            exclude_interfaces: list::interfaces(&self.exclude_interfaces),
            virtual_interfaces: list::interfaces(&self.reroute_virtual_interfaces),
            outbound_ranges_include: list::ranges(&self.outbound_ranges_include)?,
            outbound_ranges_exclude: list::cidrs(&self.outbound_ranges_exclude)?,
            outbound_ports_include: list::ports(&self.outbound_ports_include.0),
            outbound_ports_exclude: list::ports(&self.outbound_ports_exclude.0),
            owner_groups_include: self
                .owner_groups_include
                .as_ref()
                .map_or(default.owner_groups_include, |text| list::groups(&text.0)),
            owner_groups_exclude: list::ids(&self.owner_groups_exclude.0),
            loopback,
            dns: self.dns(),
            drop_invalid: self.drop_invalid,
            tproxy_mark: number(self.inbound_tproxy_mark.as_ref(), default.tproxy_mark)?,
            tproxy_route_table: number(self.inbound_tproxy_route_table.as_ref(), default.tproxy_route_table)?,
        })
    }

    fn dns(&self) -> Dns {
        match (self.redirect_dns, self.capture_all_dns) {
            (false, _) => Dns::Off,
            (true, true) => Dns::All,
            (true, false) => {
                Dns::Servers { v4: self.dns_servers_v4.clone(), v6: self.dns_servers_v6.clone() }
            }
        }
    }
}

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(
    text: Option<&Text>,
    default: T,
) -> Result<T, SettingsError> {
    text.map_or(Ok(default), |text| Ok(text.0.parse()?))
}
