// SPDX-License-Identifier: Apache-2.0
//! The addresses of the calling thread's namespace, and the helper address `::6` on its `lo`. Which address decides what
//! is up to `redirect`.

use std::io;
use std::net::IpAddr;

/// Why addresses could not be read or added.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// No rtnetlink socket, or it failed.
    #[error("failed to talk to rtnetlink: {0}")]
    Socket(#[source] io::Error),
    /// The kernel refused.
    #[error("failed to {what}: {source}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The kernel runs without IPv6 (`ipv6.disable=1`, or built without).
    #[error("failed to add ::6/128 to lo: this kernel has no IPv6")]
    NoIpv6InKernel,
    /// IPv6 is switched off in this namespace (`net.ipv6.conf.lo.disable_ipv6=1`).
    #[error(
        "failed to add ::6/128 to lo: IPv6 is disabled in this network namespace (net.ipv6.conf.lo.disable_ipv6)"
    )]
    Ipv6Disabled,
    /// A reply that cannot be read.
    #[error("failed to read the kernel's list of addresses: malformed reply")]
    Malformed,
}

/// One address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Prefix length.
    pub length: u8,
    /// Index of its interface.
    pub interface: u32,
    /// `RT_SCOPE_*`: 0 universe, 200 site, 253 link, 254 host.
    pub scope: u8,
    /// `IFA_F_*`.
    pub flags: u32,
}

/// What adding the helper address came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// It was added.
    Added,
    /// It was there.
    Present,
}

/// All addresses of the namespace, loopback included, in the order in which the kernel lists them (IPv4 first).
///
/// # Errors
/// If rtnetlink fails.
pub fn list() -> Result<Vec<Address>, AddressError> {
    todo!()
}

/// Adds `::6/128` to `lo`, without duplicate address detection.
///
/// # Errors
/// [`AddressError::NoIpv6InKernel`] or [`AddressError::Ipv6Disabled`] where there is no IPv6, otherwise the kernel's reason.
pub fn add_loopback_helper() -> Result<Helper, AddressError> {
    todo!()
}
