// SPDX-License-Identifier: Apache-2.0
//! Decision to redirect a pod, and how.

use std::collections::BTreeSet;

use protocol::netconf::NoInterception;
use protocol::pod::PodFacts;

use crate::annotations::{InvalidValue, NONE};
use crate::go::parse_bool;
use crate::parameters::Redirect;
use crate::proxy::{Proxy, containers};
use crate::shared::shared;
use crate::skip::STATUS;
use crate::source::ProxyEnv;

pub use crate::annotations::AnnotationError;
pub use crate::skip::SkipReason;

/// Label, and annotation, by which a pod asks for injection or refuses it.
const INJECT: &str = "sidecar.istio.io/inject";

/// Decision on a pod.
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
        Ok(proxy) => {
            let mut redirect = Redirect::read(&pod.metadata.annotations, &proxy)?;
            redirect.shared = shared(pod, &redirect.uid.value, &redirect.gid.value);
            redirect.runtime_class = pod.spec.runtime_class_name.clone().filter(|class| !class.is_empty());
            Ok(Enrolment::Enrol(Box::new(redirect)))
        }
    }
}

/// As [`enrol`], and by what the node's configuration makes of pods without interception.
///
/// # Errors
/// Those of [`enrol`].
pub fn enrol_by(pod: &PodFacts, no_interception: NoInterception) -> Result<Enrolment, AnnotationError> {
    let is_none =
        |error: &AnnotationError| matches!(&*error.reason, InvalidValue::Mode(mode) if mode == NONE);
    match enrol(pod) {
        Err(error) if no_interception == NoInterception::Skip && is_none(&error) => {
            Ok(Enrolment::Skip(SkipReason::NoInterception))
        }
        decided => decided,
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
