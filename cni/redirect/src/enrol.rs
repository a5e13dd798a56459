// SPDX-License-Identifier: Apache-2.0
//! Whether a pod is redirected, and how.

use std::collections::{BTreeMap, BTreeSet};

use protocol::pod::PodFacts;

use crate::annotations::{
    Annotation, InvalidValue, check_length, check_pairs, check_ports, read_exclude_ranges,
    read_include_ranges, read_interfaces, read_mode,
};
use crate::go::parse_bool;
use crate::host::Stack;
use crate::list;
use crate::parameters::{EnvWarning, ProxyEnv, Redirect, Source, Sourced};
use crate::proxy::{Proxy, containers};
use crate::ruleset::Port;

pub use crate::annotations::AnnotationError;
pub use crate::skip::SkipReason;

/// Label, and annotation, by which a pod asks for injection or refuses it.
const INJECT: &str = "sidecar.istio.io/inject";
/// The injector's mark on a pod.
const STATUS: &str = "sidecar.istio.io/status";

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enrolment {
    /// It is left alone.
    Skip(SkipReason),
    /// Its traffic is redirected.
    Enrol(Box<Redirect>),
}

/// Decides about a pod.
///
/// # Errors
/// The pod is in the mesh but says something that cannot be done. The first bad annotation is reported.
pub fn enrol(pod: &PodFacts) -> Result<Enrolment, AnnotationError> {
    match exclusion(pod) {
        Err(reason) => Ok(Enrolment::Skip(reason)),
        Ok(proxy) => parameters(&pod.metadata.annotations, &proxy).map(Box::new).map(Enrolment::Enrol),
    }
}

/// The first reason to leave a pod alone; without one, its proxy.
fn exclusion(pod: &PodFacts) -> Result<Proxy<'_>, SkipReason> {
    if pod.spec.host_network {
        return Err(SkipReason::HostNetwork);
    }
    if containers(pod).any(|container| container.name == "istio-init") {
        return Err(SkipReason::IstioInit);
    }
    let proxy = Proxy::read(pod);
    let disabled = proxy.as_ref().and_then(|proxy| proxy.env(ProxyEnv::DisableEnvoy));
    if disabled.is_some_and(|value| parse_bool(value) == Ok(true)) {
        return Err(SkipReason::EnvoyDisabled);
    }
    let Some(proxy) = proxy else {
        let names: BTreeSet<&str> = containers(pod).map(|container| container.name.as_str()).collect();
        return Err(SkipReason::NoProxy { containers: names.into_iter().map(str::to_owned).collect() });
    };
    if !matches!(proxy.kind, "" | "sidecar") {
        return Err(SkipReason::ProxyType { kind: proxy.kind.to_owned() });
    }
    let metadata = &pod.metadata;
    let (label, annotation) = (metadata.labels.get(INJECT), metadata.annotations.get(INJECT));
    if label.or(annotation).is_some_and(|value| parse_bool(value) == Ok(false)) {
        return Err(SkipReason::InjectionOff);
    }
    if !metadata.annotations.contains_key(STATUS) {
        return Err(SkipReason::NotInjected);
    }
    Ok(proxy)
}

fn parameters(
    annotations: &BTreeMap<String, String>,
    proxy: &Proxy<'_>,
) -> Result<Redirect, AnnotationError> {
    let pod = Annotations(annotations);
    let ports = |text: &str| check_ports(text).map(|()| list::ports(text)).map_err(InvalidValue::Ports);
    let inbound =
        |text: &str| check_ports(text).map(|()| list::inbound_ports(text)).map_err(InvalidValue::Ports);
    let without = |text: &str| check_ports(text).map(|()| uncaptured(text)).map_err(InvalidValue::Ports);
    let interfaces = |text: &str| read_interfaces(text).map_err(InvalidValue::Interface);

    // Fields are evaluated in this order, and the first bad annotation is the one that is reported.
    let mut redirect = Redirect {
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

/// The proxy's own inbound ports (merged telemetry, health, Envoy's telemetry): never captured.
const PROXY_PORTS: [&str; 3] = ["15020", "15021", "15090"];

/// Inbound ports that are not captured: those given, then the proxy's own, each spelling once.
fn uncaptured(given: &str) -> Vec<Port> {
    let mut seen = BTreeSet::new();
    let tokens = given.trim().split(',').filter(|token| !token.is_empty()).chain(PROXY_PORTS);
    tokens.filter(|token| seen.insert(*token)).map(|token| list::port(token.trim())).collect()
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
