// SPDX-License-Identifier: Apache-2.0
//! The proxy as a pod's containers describe it. A native sidecar is an init container; where several containers are called
//! `istio-proxy`, init containers are read first and later ones overwrite what they themselves say.

use protocol::pod::{Container, PodFacts};

use crate::config::PROXY_ID;
use crate::ruleset::Id;
use crate::source::{ProxyEnv, Source, Sourced};

/// The name of the proxy's container.
const NAME: &str = "istio-proxy";

/// Merged settings of the `istio-proxy` containers.
#[derive(Debug, Default)]
pub(crate) struct Proxy<'a> {
    /// The second argument after `proxy`; empty if nobody says.
    pub(crate) kind: &'a str,
    uid: Option<i64>,
    gid: Option<i64>,
    env: [Option<&'a str>; ProxyEnv::ALL.len()],
}

/// All containers of a pod, init containers first.
pub(crate) fn containers(pod: &PodFacts) -> impl Iterator<Item = &Container> {
    pod.spec.init_containers.iter().chain(&pod.spec.containers)
}

impl<'a> Proxy<'a> {
    /// Reads a pod's containers; `None` if none is a proxy.
    pub(crate) fn read(pod: &'a PodFacts) -> Option<Self> {
        let mut found = None;
        for container in containers(pod).filter(|container| container.name == NAME) {
            found.get_or_insert_with(Self::default).overwrite(container);
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
        identity(self.uid)
    }

    /// The group whose traffic is left alone.
    pub(crate) fn gid(&self) -> Sourced<Id> {
        identity(self.gid)
    }
}

/// 0 counts as unset: a proxy that starts as root (TPROXY) drops to the usual id.
fn identity(id: Option<i64>) -> Sourced<Id> {
    match id {
        None | Some(0) => Sourced::default_value(Id::Number(PROXY_ID)),
        Some(id) => {
            let value = u32::try_from(id).map_or_else(|_| Id::Name(id.to_string()), Id::Number);
            Sourced { value, source: Source::SecurityContext }
        }
    }
}
