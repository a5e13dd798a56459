// SPDX-License-Identifier: Apache-2.0
//! Limits of lists in annotations. Whoever may create pods writes annotations of up to 256 KiB, and each element becomes rules
//! that every start and repair of the pod writes and every connection of it walks through: without a bound, one pod keeps its node's
//! runtime busy.

use super::{Annotation, InvalidValue};

/// Elements of a list of ports or ranges. The longest lists that are in use (a cloud's ranges, a fleet's admin ports) have some dozens, seldom
/// a few hundred; a pod whose traffic must go past its proxy to more than a thousand places wants no proxy.
pub const MAX_LIST: usize = 1024;

/// Elements of a list of interfaces. A virtual machine with a network card for each has some ten; libvirt's own limit is 32.
pub const MAX_INTERFACES: usize = 64;

/// Rules that ranges and virtual interfaces make together: as many as a full list makes for one interface.
pub const MAX_PAIRS: usize = MAX_LIST;

/// Counts a list's elements before anything is made of them.
///
/// # Errors
/// [`InvalidValue::TooLong`]
pub fn check_length(annotation: Annotation, list: &str) -> Result<(), InvalidValue> {
    let Some(limit) = annotation.limit() else { return Ok(()) };
    match list.split(',').count() {
        found if found > limit => Err(InvalidValue::TooLong { found, limit }),
        _ => Ok(()),
    }
}

/// Counts the rules that redirect each range for each virtual interface.
///
/// # Errors
/// [`InvalidValue::TooManyPairs`]
pub fn check_pairs(ranges: usize, interfaces: usize) -> Result<(), InvalidValue> {
    if ranges.saturating_mul(interfaces) > MAX_PAIRS {
        return Err(InvalidValue::TooManyPairs { ranges, interfaces, limit: MAX_PAIRS });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_refused_from_the_first_element_too_many() {
        for (annotation, limit) in
            [(Annotation::ExcludeOutboundPorts, MAX_LIST), (Annotation::KubevirtInterfaces, MAX_INTERFACES)]
        {
            let list = |length: usize| vec!["1"; length].join(",");
            assert_eq!(check_length(annotation, &list(limit)), Ok(()));
            let said = check_length(annotation, &list(limit + 1)).map_err(|error| error.to_string());
            assert_eq!(said, Err(format!("{} elements, at most {limit} are accepted", limit + 1)));
        }
    }

    #[test]
    fn ranges_for_interfaces_multiply() {
        assert_eq!(check_pairs(MAX_LIST, 1), Ok(()));
        assert_eq!(check_pairs(16, MAX_INTERFACES), Ok(()));
        assert!(check_pairs(17, MAX_INTERFACES).is_err());
    }
}
