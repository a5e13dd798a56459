// SPDX-License-Identifier: Apache-2.0
//! The result of a CNI call, of any version: [`CniResult`] holds what all of them can say, and is read from and written as each.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::error::Code;
use crate::json::JsonError;
use crate::version::{CniVersion, UnsupportedVersion};

mod cidr;
pub(crate) mod decode;
mod encode;

pub use cidr::{Cidr, CidrError};

/// A result, apart from the version that it came in. `extra` holds the keys that we do not know, at every level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CniResult {
    /// Interfaces; versions before 0.3.0 have none.
    pub interfaces: Vec<Interface>,
    /// Addresses; versions before 0.3.0 have one of each family at most.
    pub ips: Vec<Ip>,
    /// Routes.
    pub routes: Vec<Route>,
    /// Name resolution.
    pub dns: Dns,
    /// Unknown keys.
    pub extra: Map<String, Value>,
}

/// An interface of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// `name`
    pub name: String,
    /// `mac`
    pub mac: String,
    /// `mtu` (1.1)
    pub mtu: i64,
    /// `sandbox`: the network namespace; empty for an interface of the host.
    pub sandbox: String,
    /// `socketPath` (1.1)
    pub socket_path: String,
    /// `pciID` (1.1)
    pub pci_id: String,
    /// Unknown keys.
    pub extra: Map<String, Value>,
}

/// An address of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ip {
    /// `address` (`ip` before 0.3.0). Its family is what 0.3 and 0.4 repeat as `version`.
    pub address: Cidr,
    /// `gateway`
    pub gateway: Option<IpAddr>,
    /// `interface`: an index into [`CniResult::interfaces`], not checked.
    pub interface: Option<i64>,
    /// Unknown keys.
    pub extra: Map<String, Value>,
}

/// A route of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `dst`
    pub dst: Cidr,
    /// `gw`
    pub gw: Option<IpAddr>,
    /// `mtu` (1.1)
    pub mtu: i64,
    /// `advmss` (1.1)
    pub advmss: i64,
    /// `priority` (1.1)
    pub priority: i64,
    /// `table` (1.1)
    pub table: Option<i64>,
    /// `scope` (1.1)
    pub scope: Option<i64>,
    /// Unknown keys.
    pub extra: Map<String, Value>,
}

/// Name resolution of a result or a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// `nameservers`
    pub nameservers: Vec<String>,
    /// `domain`
    pub domain: String,
    /// `search`
    pub search: Vec<String>,
    /// `options`
    pub options: Vec<String>,
    /// Unknown keys.
    pub extra: Map<String, Value>,
}

/// Shapes of results by version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// 0.1 and 0.2: `ip4` and `ip6`.
    Single,
    /// 0.3 and 0.4: `interfaces` and `ips`, each with its `version`.
    Listed,
    /// 1.0 and 1.1.
    Current,
}

impl From<CniVersion> for Family {
    fn from(version: CniVersion) -> Self {
        match version {
            CniVersion::V0_1_0 | CniVersion::V0_2_0 => Self::Single,
            CniVersion::V0_3_0 | CniVersion::V0_3_1 | CniVersion::V0_4_0 => Self::Listed,
            CniVersion::V1_0_0 | CniVersion::V1_1_0 => Self::Current,
        }
    }
}

/// Result that cannot be decoded or encoded.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// Not an object.
    #[error("read a result that is not an object")]
    NotAnObject,
    /// Value of the wrong type.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Unsupported version.
    #[error(transparent)]
    Version(#[from] UnsupportedVersion),
    /// The result's version has another shape than the configuration's.
    #[error("read a result of version {found} as {wanted}")]
    OtherVersion {
        /// Version of the result.
        found: CniVersion,
        /// Version of the configuration.
        wanted: CniVersion,
    },
    /// Malformed address or destination.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// Malformed gateway.
    #[error("{0:?} is not an address")]
    Address(String),
    /// 0.1.0 and 0.2.0 have no result without an address.
    #[error("write a result without addresses as version {0}")]
    NoAddress(CniVersion),
    /// The writer failed.
    #[error("write JSON")]
    Write(#[from] serde_json::Error),
}

impl ResultError {
    /// CNI error code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::NotAnObject | Self::Json(_) | Self::Cidr(_) | Self::Address(_) => Code::DECODING,
            Self::Version(_) | Self::OtherVersion { .. } | Self::NoAddress(_) => Code::INCOMPATIBLE_VERSION,
            Self::Write(_) => Code::INTERNAL,
        }
    }
}

impl CniResult {
    /// An empty result, for a plugin without `prevResult`.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads a result as `version`. A `cniVersion` in it must be of the same family (0.1-0.2, 0.3-0.4, 1.x).
    ///
    /// # Errors
    /// Another family, a wrong type, or an address that is none.
    pub fn decode(value: Value, version: CniVersion) -> Result<Self, ResultError> {
        decode::decode(value, version)
    }

    /// Writes the result as `version`: JSON indented by four spaces, ended by a newline. What the version has no place for
    /// is left out: before 0.3.0 interfaces, and addresses beyond the first of a family.
    ///
    /// # Errors
    /// [`ResultError::NoAddress`].
    pub fn encode(&self, version: CniVersion) -> Result<String, ResultError> {
        encode::encode(self, version)
    }
}
