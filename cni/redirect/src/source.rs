// SPDX-License-Identifier: Apache-2.0
//! The place that a value of a pod comes from: an annotation, the proxy's container, or the pod's security context.

use serde::{Deserialize, Serialize};

use crate::annotations::Annotation;
use crate::go::BoolError;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// An annotation of the pod.
    Annotation(Annotation),
    /// An environment variable of the proxy's container.
    Env(ProxyEnv),
    /// The security context of the proxy's container.
    SecurityContext,
    /// The security context of the pod, where the proxy's container leaves the field out.
    PodSecurityContext,
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("environment variable {} counts as false: {error}", variable.name())]
pub struct EnvWarning {
    /// The variable.
    pub variable: ProxyEnv,
    /// Error in its value.
    pub error: BoolError,
}
