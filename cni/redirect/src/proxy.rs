// SPDX-License-Identifier: Apache-2.0
//! The proxy as a pod's containers describe it. A native sidecar is an init container; where several containers are called
//! `istio-proxy`, init containers are read first and later ones overwrite what they themselves say.

use protocol::pod::{Container, PodFacts, SecurityContext};

use crate::config::PROXY_ID;
use crate::ruleset::Id;
use crate::source::{ProxyEnv, Source, Sourced};

/// The name of the proxy's container.
pub(crate) const NAME: &str = "istio-proxy";

/// Merged settings of the `istio-proxy` containers.
#[derive(Debug, Default)]
pub(crate) struct Proxy<'a> {
    /// The second argument after `proxy`; empty if nobody says.
    pub(crate) kind: &'a str,
    uid: Option<i64>,
    gid: Option<i64>,
    of_pod: SecurityContext,
    env: [Option<&'a str>; ProxyEnv::ALL.len()],
}

/// All containers of a pod, init containers first.
pub(crate) fn containers(pod: &PodFacts) -> impl Iterator<Item = &Container> {
    pod.spec.init_containers.iter().chain(&pod.spec.containers)
}

impl<'a> Proxy<'a> {
    /// Reads a pod's containers; `None` if none is a proxy.
    pub(crate) fn read(pod: &'a PodFacts) -> Option<Self> {
        let of_pod = pod.spec.security_context.unwrap_or_default();
        let mut found = None;
        for container in containers(pod).filter(|container| container.name == NAME) {
            found.get_or_insert_with(|| Self { of_pod, ..Self::default() }).overwrite(container);
        }
        found
    }

    fn overwrite(&mut self, container: &'a Container) {
        for variable in &container.env {
            if let Some(at) = ProxyEnv::ALL.iter().position(|known| known.name() == variable.name) {
                self.env[at] = Some(&variable.value);
            }
        }
        if let [first, kind, ..] = container.args.as_slice()
            && first == "proxy"
        {
            self.kind = kind;
        }
        if let Some(context) = container.security_context {
            self.uid = context.run_as_user;
            self.gid = context.run_as_group;
        }
    }

    /// A variable's literal value, if it is there.
    pub(crate) fn env(&self, variable: ProxyEnv) -> Option<&'a str> {
        self.env[variable as usize]
    }

    /// The user whose traffic is left alone.
    pub(crate) fn uid(&self) -> Sourced<Id> {
        identity(self.uid, self.of_pod.run_as_user)
    }

    /// The group whose traffic is left alone.
    pub(crate) fn gid(&self) -> Sourced<Id> {
        identity(self.gid, self.of_pod.run_as_group)
    }
}

/// The effective id, as the kubelet decides it: the container's, else the pod's. 0 counts as unset: a proxy that starts as root (TPROXY) drops to
/// the usual id.
fn identity(of_container: Option<i64>, of_pod: Option<i64>) -> Sourced<Id> {
    let own = of_container.map(|id| (id, Source::SecurityContext));
    match own.or(of_pod.map(|id| (id, Source::PodSecurityContext))) {
        None | Some((0, _)) => Sourced::default_value(Id::Number(PROXY_ID)),
        Some((id, source)) => Sourced { value: number(id), source },
    }
}

/// The id in rules; one that no user has stays as it is written.
pub(crate) fn number(id: i64) -> Id {
    u32::try_from(id).map_or_else(|_| Id::Name(id.to_string()), Id::Number)
}

/// True if the proxy's user or group depends on the pod's security context, and the pod was described without.
#[must_use]
pub fn lacks_pod_context(pod: &PodFacts) -> bool {
    let depends = |container: &Container| {
        let context = container.security_context.unwrap_or_default();
        context.run_as_user.is_none() || context.run_as_group.is_none()
    };
    pod.spec.security_context.is_none()
        && containers(pod).any(|container| container.name.as_str() == NAME && depends(container))
}
