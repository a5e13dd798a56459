// SPDX-License-Identifier: Apache-2.0
//! The annotations that shape redirection: their keys, defaults and validation, in the order in which the first bad one
//! stops an enrolment. What they add up to is decided in [`enrol`](mod@crate::enrol).

mod bound;
mod interfaces;
mod ports;
mod ranges;

use std::collections::BTreeMap;

use protocol::text::Shortened;
use serde::{Deserialize, Serialize};

use crate::config::Mode;

pub use bound::{MAX_INTERFACES, MAX_LIST, MAX_PAIRS, check_length, check_pairs};
pub use interfaces::{InterfaceError, read_interfaces};
pub use ports::{PortError, PortListError, check_ports};
pub use ranges::{RangeError, read_exclude_ranges, read_include_ranges};

/// An annotation of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Annotation {
    /// `REDIRECT` or `TPROXY`
    InterceptionMode,
    /// Outbound destinations that are captured.
    IncludeOutboundRanges,
    /// Outbound destinations that are not.
    ExcludeOutboundRanges,
    /// Inbound ports that are not captured.
    ExcludeInboundPorts,
    /// Inbound ports that are.
    IncludeInboundPorts,
    /// Outbound ports that are not captured.
    ExcludeOutboundPorts,
    /// Outbound ports that are, whatever the destination.
    IncludeOutboundPorts,
    /// Interfaces whose traffic is left alone.
    ExcludeInterfaces,
    /// Interfaces whose inbound traffic is outbound traffic of a guest.
    RerouteVirtualInterfaces,
    /// The older name of [`Annotation::RerouteVirtualInterfaces`], read only where that one is absent.
    KubevirtInterfaces,
}

impl Annotation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::InterceptionMode,
        Self::IncludeOutboundRanges,
        Self::ExcludeOutboundRanges,
        Self::ExcludeInboundPorts,
        Self::IncludeInboundPorts,
        Self::ExcludeOutboundPorts,
        Self::IncludeOutboundPorts,
        Self::ExcludeInterfaces,
        Self::RerouteVirtualInterfaces,
        Self::KubevirtInterfaces,
    ];

    /// The annotation's key.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::InterceptionMode => "sidecar.istio.io/interceptionMode",
            Self::IncludeOutboundRanges => "traffic.sidecar.istio.io/includeOutboundIPRanges",
            Self::ExcludeOutboundRanges => "traffic.sidecar.istio.io/excludeOutboundIPRanges",
            Self::ExcludeInboundPorts => "traffic.sidecar.istio.io/excludeInboundPorts",
            Self::IncludeInboundPorts => "traffic.sidecar.istio.io/includeInboundPorts",
            Self::ExcludeOutboundPorts => "traffic.sidecar.istio.io/excludeOutboundPorts",
            Self::IncludeOutboundPorts => "traffic.sidecar.istio.io/includeOutboundPorts",
            Self::ExcludeInterfaces => "traffic.sidecar.istio.io/excludeInterfaces",
            Self::RerouteVirtualInterfaces => "istio.io/reroute-virtual-interfaces",
            Self::KubevirtInterfaces => "traffic.sidecar.istio.io/kubevirtInterfaces",
        }
    }

    /// The name by which error messages call it.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        match self {
            Self::InterceptionMode => "redirectMode",
            Self::IncludeOutboundRanges => "includeIPCidrs",
            Self::ExcludeOutboundRanges => "excludeIPCidrs",
            Self::ExcludeInboundPorts => "excludeInboundPorts",
            Self::IncludeInboundPorts => "includeInboundPorts",
            Self::ExcludeOutboundPorts => "excludeOutboundPorts",
            Self::IncludeOutboundPorts => "includeOutboundPorts",
            Self::ExcludeInterfaces => "excludeInterfaces",
            Self::RerouteVirtualInterfaces => "reroute-virtual-interfaces",
            Self::KubevirtInterfaces => "kubevirtInterfaces",
        }
    }

    /// The value that stands where the annotation is absent.
    #[must_use]
    pub fn default_value(self) -> &'static str {
        match self {
            Self::InterceptionMode => "REDIRECT",
            Self::IncludeOutboundRanges | Self::IncludeInboundPorts => "*",
            Self::ExcludeInboundPorts | Self::ExcludeOutboundPorts => "15020",
            Self::ExcludeOutboundRanges
            | Self::IncludeOutboundPorts
            | Self::ExcludeInterfaces
            | Self::RerouteVirtualInterfaces
            | Self::KubevirtInterfaces => "",
        }
    }

    /// Maximum number of list elements; `None` if it is no list.
    #[must_use]
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::InterceptionMode => None,
            Self::IncludeOutboundRanges
            | Self::ExcludeOutboundRanges
            | Self::ExcludeInboundPorts
            | Self::IncludeInboundPorts
            | Self::ExcludeOutboundPorts
            | Self::IncludeOutboundPorts => Some(MAX_LIST),
            Self::ExcludeInterfaces | Self::RerouteVirtualInterfaces | Self::KubevirtInterfaces => {
                Some(MAX_INTERFACES)
            }
        }
    }

    /// The annotation's value among a pod's, if it is there.
    #[must_use]
    pub fn find(self, annotations: &BTreeMap<String, String>) -> Option<&str> {
        annotations.get(self.key()).map(String::as_str)
    }
}

/// An annotation whose value is refused: the pod cannot be enrolled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation value error for value {}; annotationFound = true: {reason}", annotation.short_name())]
pub struct AnnotationError {
    /// The annotation.
    pub annotation: Annotation,
    /// Error in its value.
    pub reason: Box<InvalidValue>,
}

/// istiod's value for proxies to which nothing is redirected.
pub(crate) const NONE: &str = "NONE";

impl AnnotationError {
    /// Remedy for the pod's author or the operator: the key as it is in the pod, and, of `NONE`, what else there is.
    #[must_use]
    pub fn advice(&self) -> String {
        let key = self.annotation.key();
        match &*self.reason {
            InvalidValue::Mode(mode) if mode == NONE => format!(
                "annotation {key} is NONE, by which istiod configures a proxy that nothing is redirected to: remove it to have the pod's traffic redirected, or set interceptionModeNone=skip in the node agent's values to have such pods start without redirection"
            ),
            InvalidValue::Mode(_) => format!("annotation {key} may be REDIRECT or TPROXY"),
            _ => format!("correct the pod's annotation {key}"),
        }
    }
}

/// Error in a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// Neither `REDIRECT` nor `TPROXY`; `NONE` is not accepted here either.
    #[error("interceptionMode invalid: {}", Shortened(.0))]
    Mode(String),
    /// A bad element of `includeOutboundIPRanges`.
    #[error("IPRanges invalid: {0}")]
    IncludeRanges(RangeError),
    /// A bad element of `excludeOutboundIPRanges`.
    #[error(transparent)]
    ExcludeRanges(RangeError),
    /// A bad list of ports.
    #[error(transparent)]
    Ports(PortListError),
    /// A bad interface name.
    #[error(transparent)]
    Interface(InterfaceError),
    /// A list that is longer than any that is meant.
    #[error("{found} elements, at most {limit} are accepted")]
    TooLong {
        /// Its length.
        found: usize,
        /// Maximum length.
        limit: usize,
    },
    /// Each range is redirected for each virtual interface.
    #[error(
        "{ranges} ranges for each of {interfaces} virtual interfaces are {} rules, at most {limit} are accepted",
        ranges.saturating_mul(*interfaces)
    )]
    TooManyPairs {
        /// Number of listed ranges.
        ranges: usize,
        /// Number of interfaces.
        interfaces: usize,
        /// Maximum number of rules.
        limit: usize,
    },
}

/// Reads the interception mode.
///
/// # Errors
/// Anything but the two modes, in capitals.
pub fn read_mode(value: &str) -> Result<Mode, InvalidValue> {
    match value {
        "REDIRECT" => Ok(Mode::Redirect),
        "TPROXY" => Ok(Mode::Tproxy),
        other => Err(InvalidValue::Mode(other.to_owned())),
    }
}
