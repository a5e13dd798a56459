// SPDX-License-Identifier: Apache-2.0
//! Annotations that refuse a pod, as istiod's do (`AnnotationValidation`): it is stricter than the plugin, which takes `*` for excluded ports.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::config::Mode;
use crate::error::InjectError;
use crate::traffic::{
    EXCLUDE_INBOUND, EXCLUDE_INTERFACES, EXCLUDE_OUTBOUND, EXCLUDE_RANGES, INCLUDE_INBOUND, INCLUDE_RANGES,
    KUBEVIRT, MODE, REROUTE, STATUS_PORT,
};

/// Longest name of an interface (`IFNAMSIZ` less its NUL).
const LONGEST_NAME: usize = 15;

/// Judge of an annotation's value.
type Check = fn(&str) -> bool;

const CHECKS: [(&str, Check); 10] = [
    (MODE, |mode| Mode::read(mode).is_some()),
    (STATUS_PORT, is_port),
    (INCLUDE_RANGES, |ranges| ranges == "*" || are_ranges(ranges)),
    (EXCLUDE_RANGES, are_ranges),
    (INCLUDE_INBOUND, |ports| ports == "*" || are_ports(ports)),
    (EXCLUDE_INBOUND, are_ports),
    (EXCLUDE_OUTBOUND, are_ports),
    (EXCLUDE_INTERFACES, are_interfaces),
    (KUBEVIRT, are_interfaces),
    (REROUTE, are_interfaces),
];

/// Checks all that there are.
///
/// # Errors
/// The first that cannot be obeyed.
pub(crate) fn annotations(own: &Map<String, Value>) -> Result<(), InjectError> {
    for (name, is_right) in CHECKS {
        if let Some(value) = own.get(name).and_then(Value::as_str).filter(|value| !is_right(value)) {
            return Err(InjectError::Annotation { name: name.to_owned(), value: value.to_owned() });
        }
    }
    Ok(())
}

fn is_port(port: &str) -> bool {
    port.trim().parse::<u16>().is_ok()
}

fn are_ports(list: &str) -> bool {
    list.trim().is_empty() || list.split(',').all(is_port)
}

fn are_ranges(list: &str) -> bool {
    let is_range = |range: &str| {
        let Some((address, bits)) = range.split_once('/') else { return false };
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    };
    list.is_empty() || list.split(',').all(is_range)
}

fn are_interfaces(list: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_name = |name: &str| (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(usual);
    list.is_empty() || list.split(',').all(|name| is_name(name.trim()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(name: &str, value: &str) -> bool {
        annotations(json!({ name: value }).as_object().unwrap()).is_err()
    }

    #[test]
    fn what_istiod_refuses_is_refused() {
        for (name, value) in [
            (MODE, "tproxy"),
            (STATUS_PORT, "http"),
            (INCLUDE_RANGES, "10.0.0.0/33"),
            (INCLUDE_RANGES, "10.0.0.0"),
            (EXCLUDE_RANGES, "*"),
            (INCLUDE_INBOUND, "80,"),
            (EXCLUDE_INBOUND, "*"),
            (EXCLUDE_OUTBOUND, "65536"),
            (KUBEVIRT, "not/one"),
            (REROUTE, "net1,"),
            (EXCLUDE_INTERFACES, "sixteen-letters-"),
        ] {
            assert!(refused(name, value), "{name} {value}");
        }
    }

    #[test]
    fn what_it_takes_is_taken() {
        for (name, value) in [
            (MODE, "NONE"),
            (INCLUDE_RANGES, "*"),
            (INCLUDE_RANGES, ""),
            (EXCLUDE_RANGES, "fd00::/128,10.0.0.0/0"),
            (INCLUDE_INBOUND, "*"),
            (EXCLUDE_INBOUND, " 80, 81 "),
            (EXCLUDE_INTERFACES, "net1,eth0.20"),
        ] {
            assert!(!refused(name, value), "{name} {value}");
        }
    }
}
