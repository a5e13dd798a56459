// SPDX-License-Identifier: Apache-2.0
//! What a pod asks of redirection, each value with the place that it comes from.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::annotations::Annotation;
use crate::config::{Config, Dns, Mode};
use crate::go::BoolError;
use crate::host::{Environment, Host, NoLocalAddress, Stack, decide_addresses};
use crate::list::Selection;
use crate::ruleset::{Cidr, Id, Port};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// An annotation of the pod.
    Annotation(Annotation),
    /// An environment variable of the proxy's container.
    Env(ProxyEnv),
    /// The security context of the proxy's container.
    SecurityContext,
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: Source,
}

impl<T> Sourced<T> {
    /// A value that nobody set.
    #[must_use]
    pub fn default_value(value: T) -> Self {
        Self { value, source: Source::Default }
    }
}

/// Environment variables of the proxy's container that shape redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyEnv {
    /// All DNS traffic goes to the agent.
    DnsCapture,
    /// Both families count.
    DualStack,
    /// Packets that conntrack cannot place are dropped.
    InvalidDrop,
    /// The proxy does not run: no redirection.
    DisableEnvoy,
}

impl ProxyEnv {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::DnsCapture, Self::DualStack, Self::InvalidDrop, Self::DisableEnvoy];

    /// The variable's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DnsCapture => "ISTIO_META_DNS_CAPTURE",
            Self::DualStack => "ISTIO_DUAL_STACK",
            Self::InvalidDrop => "INVALID_DROP",
            Self::DisableEnvoy => "DISABLE_ENVOY",
        }
    }
}

/// A variable whose value is no truth value: it counts as false, and somebody should know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {} counts as false: {error}", variable.name())]
pub struct EnvWarning {
    /// The variable.
    pub variable: ProxyEnv,
    /// What is wrong with its value.
    pub error: BoolError,
}

/// What an enrolled pod asks of redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// How inbound traffic is captured.
    pub mode: Sourced<Mode>,
    /// The proxy's user.
    pub uid: Sourced<Id>,
    /// The proxy's group.
    pub gid: Sourced<Id>,
    /// Outbound destinations that are captured.
    pub include_outbound_ranges: Sourced<Selection<Cidr>>,
    /// Outbound destinations that are not.
    pub exclude_outbound_ranges: Sourced<Vec<Cidr>>,
    /// Inbound ports that are not captured, the proxy's own three included.
    pub exclude_inbound_ports: Sourced<Vec<Port>>,
    /// Inbound ports that are captured; `None` leaves inbound traffic alone.
    pub include_inbound_ports: Sourced<Option<Selection<Port>>>,
    /// Outbound ports that are not captured.
    pub exclude_outbound_ports: Sourced<Vec<Port>>,
    /// Outbound ports that are captured, whatever the destination.
    pub include_outbound_ports: Sourced<Vec<Port>>,
    /// Interfaces whose traffic is left alone.
    pub exclude_interfaces: Sourced<Vec<Cow<'static, str>>>,
    /// Interfaces whose inbound traffic is outbound traffic of a guest.
    pub virtual_interfaces: Sourced<Vec<Cow<'static, str>>>,
    /// Whether all DNS traffic goes to the agent.
    pub dns: Sourced<bool>,
    /// Whether both families count.
    pub stack: Sourced<Stack>,
    /// Whether packets that conntrack cannot place are dropped.
    pub drop_invalid: Sourced<bool>,
    /// Variables that could not be read.
    pub warnings: Vec<EnvWarning>,
}

impl Redirect {
    /// The configuration of this pod's rules in a namespace with these addresses, in the kernel's order.
    ///
    /// # Errors
    /// The namespace has no address of its own yet.
    pub fn config_for(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
        environment: &Environment,
    ) -> Result<Config, NoLocalAddress> {
        let addresses = decide_addresses(addresses, self.stack.value)?;
        Ok(self.config(&Host { addresses, environment: environment.clone() }))
    }

    /// The configuration of this pod's rules where `host` says. Ports, marks and the routing table are the CNI's constants.
    #[must_use]
    pub fn config(&self, host: &Host) -> Config {
        Config {
            ipv6: host.addresses.ipv6,
            mode: self.mode.value,
            proxy_uids: vec![self.uid.value.clone()],
            proxy_gids: vec![self.gid.value.clone()],
            inbound_ports_include: self.include_inbound_ports.value.clone(),
            inbound_ports_exclude: self.exclude_inbound_ports.value.clone(),
            exclude_interfaces: self.exclude_interfaces.value.clone(),
            virtual_interfaces: self.virtual_interfaces.value.clone(),
            outbound_ranges_include: self.include_outbound_ranges.value.clone(),
            outbound_ranges_exclude: self.exclude_outbound_ranges.value.clone(),
            outbound_ports_include: self.include_outbound_ports.value.clone(),
            outbound_ports_exclude: self.exclude_outbound_ports.value.clone(),
            owner_groups_include: host.environment.groups_include.clone(),
            owner_groups_exclude: host.environment.groups_exclude.clone(),
            loopback: host.environment.loopback,
            dns: if self.dns.value { Dns::All } else { Dns::Off },
            drop_invalid: self.drop_invalid.value,
            ..Config::default()
        }
    }
}
