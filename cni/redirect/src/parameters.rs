// SPDX-License-Identifier: Apache-2.0
//! Redirection settings of a pod, each value with its source.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::annotations::{
    Annotation, AnnotationError, InvalidValue, check_length, check_pairs, check_ports, read_exclude_ranges,
    read_include_ranges, read_interfaces, read_mode,
};
use crate::config::{Config, Dns, Mode};
use crate::go::parse_bool;
use crate::host::{Environment, NoLocalAddress, Stack, decide_addresses};
use crate::list::{self, Selection, spell};
use crate::proxy::Proxy;
use crate::ruleset::{Cidr, Id, Origin, Port};
use crate::shared::SharedAccount;

pub use crate::source::{EnvWarning, ProxyEnv, Source, Sourced};

/// Redirection settings of an enrolled pod: decided once, wherever its rules are written ([`Serialize`] hands them to another process).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// Capture mode of inbound traffic.
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
    /// True if all DNS traffic goes to the agent.
    pub dns: Sourced<bool>,
    /// Choice of address families.
    pub stack: Sourced<Stack>,
    /// True if packets of conntrack state INVALID are dropped.
    pub drop_invalid: Sourced<bool>,
    /// Variables that could not be read.
    pub warnings: Vec<EnvWarning>,
    /// Containers of the application whose outbound traffic rules cannot tell from the proxy's.
    pub shared: Vec<SharedAccount>,
    /// The pod's RuntimeClass, by which [`crate::sandbox`] decides whether its packets meet rules.
    pub runtime_class: Option<String>,
}

/// One parameter as a person knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The annotation's key without its prefix, or the variable.
    pub name: &'static str,
    /// Effective value.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
    /// Origin of the rules that exist for it.
    pub origin: Origin,
}

impl Redirect {
    /// Reads a pod's annotations and its proxy. The first bad annotation is the one that is reported.
    pub(crate) fn read(
        annotations: &BTreeMap<String, String>,
        proxy: &Proxy<'_>,
    ) -> Result<Self, AnnotationError> {
        let pod = Annotations(annotations);
        let ports = |text: &str| check_ports(text).map(|()| list::ports(text)).map_err(InvalidValue::Ports);
        let inbound =
            |text: &str| check_ports(text).map(|()| list::inbound_ports(text)).map_err(InvalidValue::Ports);
        let without = |text: &str| check_ports(text).map(|()| uncaptured(text)).map_err(InvalidValue::Ports);
        let interfaces = |text: &str| read_interfaces(text).map_err(InvalidValue::Interface);

        // Fields are evaluated in this order, and the first bad annotation is the one that is reported.
        let mut redirect = Self {
            mode: pod.read(Annotation::InterceptionMode, read_mode)?,
            uid: proxy.uid(),
            gid: proxy.gid(),
            include_outbound_ranges: pod.read(Annotation::IncludeOutboundRanges, read_include_ranges)?,
            exclude_outbound_ranges: pod.read(Annotation::ExcludeOutboundRanges, read_exclude_ranges)?,
            exclude_inbound_ports: pod.read(Annotation::ExcludeInboundPorts, without)?,
            include_inbound_ports: pod.read(Annotation::IncludeInboundPorts, inbound)?,
            exclude_outbound_ports: pod.read(Annotation::ExcludeOutboundPorts, ports)?,
            include_outbound_ports: pod.read(Annotation::IncludeOutboundPorts, ports)?,
            exclude_interfaces: pod.read(Annotation::ExcludeInterfaces, interfaces)?,
            virtual_interfaces: pod.read(pod.virtual_interfaces(), interfaces)?,
            dns: Sourced::default_value(false),
            stack: Sourced::default_value(Stack::FirstAddress),
            drop_invalid: Sourced::default_value(false),
            warnings: Vec::new(),
            shared: Vec::new(),
            runtime_class: None,
        };
        check_pairs(
            redirect.include_outbound_ranges.value.listed().len(),
            redirect.virtual_interfaces.value.len(),
        )
        .map_err(|reason| AnnotationError {
            annotation: Annotation::IncludeOutboundRanges,
            reason: Box::new(reason),
        })?;
        redirect.dns = switch(proxy, ProxyEnv::DnsCapture, &mut redirect.warnings);
        let dual = switch(proxy, ProxyEnv::DualStack, &mut redirect.warnings);
        let stack = if dual.value { Stack::Dual } else { Stack::FirstAddress };
        redirect.stack = Sourced { value: stack, source: dual.source };
        redirect.drop_invalid = switch(proxy, ProxyEnv::InvalidDrop, &mut redirect.warnings);
        Ok(redirect)
    }

    /// The configuration of this pod's rules in a namespace with these addresses, in the kernel's order. Ports, marks and the routing table
    /// are the CNI's constants.
    ///
    /// # Errors
    /// The namespace has no address of its own yet.
    pub fn config_for(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
        environment: &Environment,
    ) -> Result<Config, NoLocalAddress> {
        let addresses = decide_addresses(addresses, self.stack.value)?;
        Ok(Config {
            ipv6: addresses.ipv6,
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
            owner_groups_include: environment.groups_include.clone(),
            owner_groups_exclude: environment.groups_exclude.clone(),
            loopback: environment.loopback,
            dns: if self.dns.value { Dns::All } else { Dns::Off },
            drop_invalid: self.drop_invalid.value,
            ..Config::default()
        })
    }

    /// Every parameter.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let proxy = |name, id: &Sourced<Id>, origin| Parameter {
            name,
            value: id.value.to_string(),
            source: id.source,
            origin,
        };
        let switch = |by: ProxyEnv, one: &Sourced<bool>, origin| Parameter {
            name: by.name(),
            value: one.value.to_string(),
            source: one.source,
            origin,
        };
        let mode = self.mode.value.name().to_owned();
        let dual = Sourced { value: self.stack.value == Stack::Dual, source: self.stack.source };
        let mut all = vec![
            set(&self.mode, Annotation::InterceptionMode, Origin::Tproxy, mode),
            proxy("runAsUser", &self.uid, Origin::ProxyUid),
            proxy("runAsGroup", &self.gid, Origin::ProxyGid),
        ];
        all.extend(self.lists());
        all.extend([
            switch(ProxyEnv::DnsCapture, &self.dns, Origin::Dns),
            switch(ProxyEnv::DualStack, &dual, Origin::OtherFamily),
            switch(ProxyEnv::InvalidDrop, &self.drop_invalid, Origin::DropInvalid),
        ]);
        all
    }

    fn lists(&self) -> [Parameter; 8] {
        use Annotation as By;
        let (to, not_to) = (&self.include_outbound_ranges, &self.exclude_outbound_ranges);
        let (at, not_at) = (&self.include_inbound_ports, &self.exclude_inbound_ports);
        let (ports, not_ports) = (&self.include_outbound_ports, &self.exclude_outbound_ports);
        let (excluded, guests) = (&self.exclude_interfaces, &self.virtual_interfaces);
        let inbound = at.value.as_ref().map(Selection::to_string).unwrap_or_default();
        [
            set(to, By::IncludeOutboundRanges, Origin::IncludeOutboundRanges, to.value.to_string()),
            set(not_to, By::ExcludeOutboundRanges, Origin::ExcludeOutboundRanges, spell(&not_to.value)),
            set(at, By::IncludeInboundPorts, Origin::IncludeInboundPorts, inbound),
            set(not_at, By::ExcludeInboundPorts, Origin::ExcludeInboundPorts, spell(&not_at.value)),
            set(ports, By::IncludeOutboundPorts, Origin::IncludeOutboundPorts, spell(&ports.value)),
            set(not_ports, By::ExcludeOutboundPorts, Origin::ExcludeOutboundPorts, spell(&not_ports.value)),
            set(excluded, By::ExcludeInterfaces, Origin::ExcludeInterfaces, spell(&excluded.value)),
            set(guests, By::RerouteVirtualInterfaces, Origin::VirtualInterfaces, spell(&guests.value)),
        ]
    }
}

/// A parameter that annotation `by` sets, or the one that it comes from.
fn set<T>(one: &Sourced<T>, by: Annotation, origin: Origin, value: String) -> Parameter {
    let by = if let Source::Annotation(found) = one.source { found } else { by };
    let name = by.key().split_once('/').map_or(by.key(), |(_, name)| name);
    Parameter { name, value, source: one.source, origin }
}

/// The proxy's own inbound ports (merged telemetry, health, Envoy's telemetry): never captured.
const PROXY_PORTS: [&str; 3] = ["15020", "15021", "15090"];

/// Inbound ports that are not captured: those given, then the proxy's own, each spelling once.
fn uncaptured(given: &str) -> Vec<Port> {
    let mut seen = BTreeSet::new();
    let tokens = given.trim().split(',').filter(|token| !token.is_empty()).chain(PROXY_PORTS);
    tokens.filter(|token| seen.insert(*token)).map(|token| list::port(token.trim())).collect()
}

/// A pod's annotations.
struct Annotations<'a>(&'a BTreeMap<String, String>);

impl Annotations<'_> {
    /// Reads an annotation, or its default where it is absent.
    fn read<T>(
        &self,
        annotation: Annotation,
        read: impl Fn(&str) -> Result<T, InvalidValue>,
    ) -> Result<Sourced<T>, AnnotationError> {
        let (text, source) = match annotation.find(self.0) {
            Some(text) => (text, Source::Annotation(annotation)),
            None => (annotation.default_value(), Source::Default),
        };
        let value = check_length(annotation, text).and_then(|()| read(text));
        value
            .map(|value| Sourced { value, source })
            .map_err(|reason| AnnotationError { annotation, reason: Box::new(reason) })
    }

    /// Under which of its two names virtual interfaces are listed: the older one is not even looked at beside the newer.
    fn virtual_interfaces(&self) -> Annotation {
        match Annotation::RerouteVirtualInterfaces.find(self.0) {
            Some(_) => Annotation::RerouteVirtualInterfaces,
            None => Annotation::KubevirtInterfaces,
        }
    }
}

/// Reads a switch of the proxy's environment. A value that says neither yes nor no counts as no.
fn switch(proxy: &Proxy<'_>, variable: ProxyEnv, warnings: &mut Vec<EnvWarning>) -> Sourced<bool> {
    let Some(text) = proxy.env(variable) else {
        return Sourced::default_value(false);
    };
    let value = parse_bool(text).unwrap_or_else(|error| {
        warnings.push(EnvWarning { variable, error });
        false
    });
    Sourced { value, source: Source::Env(variable) }
}
