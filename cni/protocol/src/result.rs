// SPDX-License-Identifier: Apache-2.0
//! The result of a CNI call, of any version: [`CniResult`] holds what all of them can say, and is read from and written as each.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::version::CniVersion;

/// A result, apart from the version that it came in. `extra` holds the keys that we do not know, at every level.
#[derive(Debug, Clone, Default, PartialEq)]
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
#[derive(Debug, Clone, Default, PartialEq)]
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

/// An address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub addr: IpAddr,
    /// At most 32 or 128.
    pub prefix: u8,
}

/// An address of a result.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, Default, PartialEq)]
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

/// Why a result can not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// 0.1.0 and 0.2.0 have no result without an address.
    #[error("represent a result without addresses in CNI version {0}")]
    NoAddress(CniVersion),
}

impl CniResult {
    /// A result that says nothing, for a plugin without `prevResult`.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Reads a result as `version`. A `cniVersion` in it must be of the same family (0.1-0.2, 0.3-0.4, 1.x).
    ///
    /// # Errors
    /// Another family, a wrong type, or an address that is none.
    pub fn decode(value: Value, version: CniVersion) -> Result<Self, ResultError> {
        let _ = value;
        Err(ResultError::NoAddress(version))
    }

    /// Writes the result as `version`: JSON indented by four spaces, ended by a newline.
    ///
    /// # Errors
    /// [`ResultError::NoAddress`].
    pub fn encode(&self, version: CniVersion) -> Result<String, ResultError> {
        Err(ResultError::NoAddress(version))
    }

    /// The interfaces.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The addresses.
    #[must_use]
    pub fn ips(&self) -> &[Ip] {
        &self.ips
    }
}
