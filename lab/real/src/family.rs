// SPDX-License-Identifier: Apache-2.0
//! Families of addresses that the kernel has.

use std::path::Path;

/// Both values, or the first alone where the kernel lacks IPv6.
#[must_use]
pub fn families<T>(four: T, six: T) -> Vec<T> {
    if Path::new("/proc/net/if_inet6").exists() { vec![four, six] } else { vec![four] }
}
