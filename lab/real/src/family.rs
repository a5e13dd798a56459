// SPDX-License-Identifier: Apache-2.0
//! Families of addresses that the kernel has.

use std::path::Path;

/// What there is of each family: IPv6 only where the kernel has it.
#[must_use]
pub fn families<T>(four: T, six: T) -> Vec<T> {
    if Path::new("/proc/net/if_inet6").exists() { vec![four, six] } else { vec![four] }
}
