// SPDX-License-Identifier: Apache-2.0
//! Results through every version.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::result::{CniResult, ResultError};
use protocol::version::{CniVersion, SUPPORTED};
use serde_json::{Value, json};

use crate::strategies::{json, listed_result, replace, single_result, version};

/// The first version whose results list interfaces and addresses.
const LISTED: CniVersion = CniVersion::V0_3_0;

fn encode(result: &CniResult, version: CniVersion) -> Value {
    serde_json::from_str(&result.encode(version).unwrap()).unwrap()
}

fn decode(value: &Value, version: CniVersion) -> CniResult {
    CniResult::decode(value.clone(), version).unwrap()
}

fn convert(value: &Value, from: CniVersion, to: CniVersion) -> Value {
    encode(&decode(value, from), to)
}

proptest! {
    #[test]
    fn a_listed_result_survives_every_version_since_0_3(result in listed_result()) {
        for version in SUPPORTED.into_iter().filter(|v| *v >= LISTED) {
            prop_assert_eq!(&decode(&encode(&result, version), version), &result, "{}", version);
        }
    }

    #[test]
    fn a_result_of_single_addresses_survives_any_way_through_all_versions(
        result in single_result(), way in vec(version(), 1..8)
    ) {
        let mut travelled = result.clone();
        for version in way {
            travelled = decode(&encode(&travelled, version), version);
        }
        prop_assert_eq!(travelled, result);
    }

    /// Whatever a runtime may send: if we take it, we can write it again in its family and lose nothing, and what other
    /// families make of it is stable.
    #[test]
    fn what_is_accepted_survives(
        result in prop_oneof![listed_result(), single_result()],
        version in version(),
        changes in vec((vec(any::<prop::sample::Index>(), 0..5), json()), 0..3),
        to in version(),
    ) {
        let Ok(text) = result.encode(version) else { return Ok(()) };
        let mut value: Value = serde_json::from_str(&text).unwrap();
        for (place, with) in changes {
            replace(&mut value, &place, with);
        }
        let Ok(accepted) = CniResult::decode(value, version) else { return Ok(()) };
        if let Ok(text) = accepted.encode(version) {
            let again = CniResult::decode(serde_json::from_str(&text).unwrap(), version).unwrap();
            // Before 0.3 the order of families is the format's.
            if version >= LISTED {
                prop_assert_eq!(&again, &accepted);
            }
            prop_assert_eq!(again.encode(version).unwrap(), text);
        }
        match accepted.encode(to) {
            Ok(text) => {
                let other = CniResult::decode(serde_json::from_str(&text).unwrap(), to);
                prop_assert_eq!(other.unwrap().encode(to).unwrap(), text);
            }
            Err(error) => {
                prop_assert!(matches!(error, ResultError::NoAddress(_)), "{}", error);
                prop_assert!(to < LISTED && accepted.ips.is_empty());
            }
        }
    }

    #[test]
    fn any_json_is_decoded_or_refused(value in json(), version in version()) {
        let is_object = value.is_object();
        let decoded = CniResult::decode(value, version);
        prop_assert!(is_object || decoded.is_err());
    }
}

#[test]
fn text_is_indented_by_four_spaces_and_ends_with_a_newline() {
    let text = CniResult::empty().encode(CniVersion::V0_4_0).unwrap();
    assert_eq!(text, "{\n    \"cniVersion\": \"0.4.0\",\n    \"dns\": {}\n}\n");
    assert_eq!(
        CniResult::empty().encode(CniVersion::V1_1_0).unwrap(),
        "{\n    \"cniVersion\": \"1.1.0\"\n}\n"
    );
}

#[test]
fn a_result_without_address_has_no_form_before_0_3() {
    for version in SUPPORTED {
        let refused =
            matches!(CniResult::empty().encode(version), Err(ResultError::NoAddress(v)) if v == version);
        assert_eq!(refused, version < LISTED, "{version}");
    }
}

#[test]
fn each_family_has_its_own_shape() {
    let single = json!({
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1", "routes": [{"dst": "0.0.0.0/0"}]},
        "ip6": {"ip": "fd00::3/64", "routes": [{"dst": "::/0", "gw": "fd00::1"}]},
        "dns": {"nameservers": ["10.96.0.10"]},
    });
    let mut listed = json!({
        "cniVersion": "0.4.0",
        "ips": [
            {"version": "4", "address": "10.1.2.3/24", "gateway": "10.1.2.1"},
            {"version": "6", "address": "fd00::3/64"},
        ],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": "fd00::1"}],
        "dns": {"nameservers": ["10.96.0.10"]},
    });
    assert_eq!(convert(&single, CniVersion::V0_2_0, CniVersion::V0_4_0), listed);
    assert_eq!(convert(&listed, CniVersion::V0_4_0, CniVersion::V0_2_0), single);
    let current = convert(&listed, CniVersion::V0_4_0, CniVersion::V1_0_0);
    for ip in listed["ips"].as_array_mut().unwrap() {
        ip.as_object_mut().unwrap().remove("version");
    }
    listed["cniVersion"] = "1.0.0".into();
    assert_eq!(current, listed);
}

#[test]
fn only_the_first_address_of_a_family_fits_before_0_3() {
    let many = json!({
        "interfaces": [{"name": "eth0"}],
        "ips": [{"address": "10.0.0.1/8", "interface": 0}, {"address": "10.0.0.2/8"}],
        "routes": [{"dst": "::/0"}, {"dst": "10.0.0.0/8"}],
    });
    let want = json!({
        "cniVersion": "0.1.0", "ip4": {"ip": "10.0.0.1/8", "routes": [{"dst": "10.0.0.0/8"}]}, "dns": {}
    });
    assert_eq!(convert(&many, CniVersion::V1_1_0, CniVersion::V0_1_0), want);
}

#[test]
fn additions_of_1_1_pass_through() {
    let current = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0", "mtu": 1400, "socketPath": "/s", "pciID": "0:1"}],
        "ips": [{"address": "10.0.0.1/8"}],
        "routes": [{"dst": "10.0.0.0/8", "mtu": 1400, "advmss": 1360, "priority": 10, "table": 0, "scope": 253}],
    });
    assert_eq!(convert(&current, CniVersion::V1_1_0, CniVersion::V1_1_0), current);
    let older = convert(&current, CniVersion::V1_1_0, CniVersion::V0_4_0);
    assert_eq!(older["interfaces"], current["interfaces"], "unknown there, and kept");
    assert_eq!(convert(&older, CniVersion::V0_4_0, CniVersion::V1_1_0), current);
    let odd = json!({"interfaces": [{"name": "eth0", "mtu": "x"}]});
    assert_eq!(convert(&odd, CniVersion::V0_4_0, CniVersion::V0_4_0)["interfaces"], odd["interfaces"]);
    assert_eq!(
        convert(&odd, CniVersion::V0_4_0, CniVersion::V1_1_0)["interfaces"],
        json!([{"name": "eth0"}])
    );
    assert!(CniResult::decode(odd, CniVersion::V1_0_0).is_err());
}

#[test]
fn unknown_keys_stay_where_they_are() {
    let value = json!({
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.1.2.3/24", "x-ip": [1, {"deep": 1.5}], "routes": [{"dst": "0.0.0.0/0", "x-route": null}]},
        "dns": {"x-dns": "d"},
        "x-top": {"big": u64::MAX},
    });
    let current = convert(&value, CniVersion::V0_2_0, CniVersion::V1_1_0);
    assert_eq!(current["ips"][0]["x-ip"], value["ip4"]["x-ip"]);
    assert_eq!(current["routes"][0]["x-route"], Value::Null);
    assert_eq!((&current["dns"], &current["x-top"]), (&value["dns"], &value["x-top"]));
    assert_eq!(convert(&current, CniVersion::V1_1_0, CniVersion::V0_2_0), value);
}

#[test]
fn an_unknown_key_yields_to_one_that_the_version_knows() {
    let current = json!({
        "cniVersion": "1.0.0", "ip4": "x", "ips": [{"address": "10.0.0.1/8", "Version": "x", "Routes": 7}],
    });
    let listed = convert(&current, CniVersion::V1_0_0, CniVersion::V0_3_1);
    assert_eq!(listed["ips"], json!([{"version": "4", "address": "10.0.0.1/8", "Routes": 7}]));
    assert_eq!(listed["ip4"], "x");
    let single = convert(&current, CniVersion::V1_0_0, CniVersion::V0_2_0);
    assert_eq!(single["ip4"], json!({"ip": "10.0.0.1/8", "Version": "x"}));
    assert_eq!(convert(&current, CniVersion::V1_0_0, CniVersion::V1_1_0)["ips"], current["ips"]);
}

#[test]
fn a_version_of_another_family_is_refused() {
    for (named, as_version, fits) in [
        ("0.1.0", CniVersion::V0_2_0, true),
        ("0.4.0", CniVersion::V0_3_0, true),
        ("1.0.0", CniVersion::V1_1_0, true),
        ("1.1.0", CniVersion::V0_4_0, false),
        ("0.2.0", CniVersion::V0_3_0, false),
        ("0.4.0", CniVersion::V1_0_0, false),
        ("2.0.0", CniVersion::V1_1_0, false),
    ] {
        let decoded = CniResult::decode(json!({"cniVersion": named}), as_version);
        assert_eq!(decoded.is_ok(), fits, "{named} as {as_version}");
    }
}

#[test]
fn mistakes_say_what_is_wrong() {
    let error = |value: Value| CniResult::decode(value, CniVersion::V1_0_0).unwrap_err().to_string();
    assert_eq!(error(json!(7)), "read a result that is not an object");
    assert_eq!(error(json!({"ips": {}})), "read \"ips\": an object is not a list");
    assert_eq!(
        error(json!({"ips": [{"address": "10.0.0.1"}]})),
        "\"10.0.0.1\" is not an address with a prefix length"
    );
    assert_eq!(error(json!({"ips": [{"address": "::1/64", "gateway": "x"}]})), "\"x\" is not an address");
    assert_eq!(
        error(json!({"ips": [{"address": "::1/64", "interface": 1.5}]})),
        "read \"interface\": a number is not a whole number"
    );
    assert_eq!(error(json!({"cniVersion": "0.4.0"})), "read a result of version 0.4.0 as 1.0.0");
}
