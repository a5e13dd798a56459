// SPDX-License-Identifier: Apache-2.0
//! No input panics, overflows the stack or takes long.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::agent::{Reply, Request, decode_line};
use protocol::args::CniArgs;
use protocol::env::{self, Command};
use protocol::netconf::{Header, NetConf};
use protocol::pod::PodFacts;
use protocol::result::Cidr;

use crate::strategies::json;

const TEN_MB: usize = 10 * 1024 * 1024;

/// Gives `bytes` to every parser; says whether any of those of the configuration took it.
fn parse_all(bytes: &[u8]) -> bool {
    let header = Header::parse(bytes, Command::Add);
    let conf = NetConf::parse(bytes);
    assert!(header.is_ok() || conf.is_err(), "a configuration has a good header");
    let _ = decode_line::<Request>(bytes);
    let _ = decode_line::<Reply>(bytes);
    let _ = serde_json::from_slice::<PodFacts>(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = CniArgs::parse(text);
        let _ = text.parse::<Cidr>();
    }
    header.is_ok()
}

/// A configuration with `value` under `key`.
fn with(key: &str, value: &str) -> Vec<u8> {
    format!("{{\"name\":\"n\",\"cniVersion\":\"1.0.0\",\"{key}\":{value}}}").into_bytes()
}

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..256)) {
        parse_all(&bytes);
        parse_all(&[&bytes[..], b"\n"].concat());
    }

    #[test]
    fn almost_json(text in r#"([\[\]{}:,"\\ ]|null|true|-?[0-9]{1,3}(e[0-9]{1,3})?|"(name|cniVersion|prevResult|ips|kind|pod|\\ud800|\\u0000)"){0,40}"#) {
        parse_all(text.as_bytes());
    }

    #[test]
    fn any_value_under_any_key(
        key in "(name|cniVersion|type|capabilities|ipam|dns|prevResult|cni\\.dev/valid-attachments|kubernetes|plugin_log_level|exclude_namespaces|enablement_selectors|ambient_enabled|millrace_backend|millrace_status_gate)",
        value in json(),
        version in "(0\\.2\\.0|0\\.4\\.0|1\\.1\\.0)",
    ) {
        parse_all(format!("{{\"name\":\"n\",\"cniVersion\":\"{version}\",\"{key}\":{value}}}").as_bytes());
        parse_all(format!("{{\"version\":1,\"kind\":\"pod\",\"response\":\"found\",\"pod\":{value},\"metadata\":{value},\"spec\":{value}}}\n").as_bytes());
    }

    #[test]
    fn a_configuration_cut_or_changed_anywhere(cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = with("prevResult", r#"{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/8","interface":0}],"dns":{"domain":"d"}}"#);
        prop_assert!(NetConf::parse(&whole).is_ok());
        let at = cut.index(whole.len());
        prop_assert!(Header::parse(&whole[..at], Command::Add).is_err(), "half a configuration is none");
        let mut changed = whole;
        changed[at] = byte;
        parse_all(&changed);
    }

    #[test]
    fn any_environment(command in "(ADD|DEL|CHECK|GC|STATUS|VERSION|[A-Z]{0,4})", values in vec(".{0,20}", 6)) {
        let names = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH", "CNI_ARGS", "CNI_NETNS_OVERRIDE"];
        let get = |name: &str| match names.iter().position(|n| *n == name) {
            Some(at) => values.get(at).cloned(),
            None => (name == "CNI_COMMAND").then(|| command.clone()),
        };
        let _ = env::parse(&get);
    }

    #[test]
    fn any_args(text in "([A-Za-z0-9_]{0,8}[=;]{0,2}){0,6}", any_text in ".{0,40}") {
        let _ = CniArgs::parse(&text);
        let _ = CniArgs::parse(&any_text);
    }
}

#[test]
fn deep_nesting() {
    for depth in [100, 127, 128, 129, 10_000, 100_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"prevResult\":", "}]")] {
            let deep = format!("{}null{}", open.repeat(depth), close.repeat(depth));
            parse_all(deep.as_bytes());
            parse_all(open.repeat(depth).as_bytes());
            parse_all(&with("prevResult", &deep));
            assert!(parse_all(&with("unknown", &deep)), "what is not read may be deep: {depth}");
            parse_all(format!("{{\"version\":1,\"response\":\"found\",\"pod\":{deep}}}\n").as_bytes());
            parse_all(format!("{{\"version\":1,\"response\":\"noted\",\"x\":{deep}}}\n").as_bytes());
        }
    }
}

#[test]
fn ten_megabytes() {
    let string = format!("\"{}\"", "x".repeat(TEN_MB));
    assert!(parse_all(&with("type", &string)));
    assert!(parse_all(&with("unknown", &string)));
    assert!(parse_all(&with("exclude_namespaces", &format!("[{}null]", "null,".repeat(TEN_MB / 5)))));
    assert!(parse_all(&with("unknown", &"9".repeat(TEN_MB))));
    parse_all(&with("unknown", &format!("1e{}", "9".repeat(TEN_MB))));
    parse_all(&with("name", &string));
    let many_keys: String = (0..TEN_MB / 16).map(|i| format!("\"k{i}\":{i},")).collect();
    assert!(parse_all(&with("prevResult", &format!("{{{many_keys}\"ips\":[]}}"))));
    for byte in [0, b' ', b'[', b'{', b'"', b'9', b'\\', 0xff] {
        assert!(!parse_all(&vec![byte; TEN_MB]));
    }
    let _ = CniArgs::parse(&"K8S_POD_NAME=x;".repeat(TEN_MB / 16));
}

#[test]
fn duplicate_keys_bom_trailing_data_and_bad_utf8() {
    let head = |bytes: &[u8]| Header::parse(bytes, Command::Add).map(drop).map_err(|error| error.code.0);
    assert_eq!(head(br#"{"name":"","name":"b"}"#), Ok(()), "the last counts");
    assert_eq!(head(br#"{"name":"b","name":""}"#), Err(7));
    assert_eq!(head(b"\xef\xbb\xbf{\"name\":\"n\"}"), Err(6));
    assert_eq!(head(b"{\"name\":\"n\"}\0"), Err(6));
    assert_eq!(head(b"{\"name\":\"n\"} {}"), Err(6));
    assert_eq!(head(b" \t\r\n{\"name\":\"n\"} \t\r\n"), Ok(()));
    assert_eq!(head(b"{\"name\":\"n\xff\"}"), Err(7), "a name with a broken character is none");
    assert_eq!(head(b"{\"name\":\"n\",\"x\":\"\xff\"}"), Ok(()));
    assert_eq!(head(b"{\"name\":\"n\",\"x\":\xff}"), Err(6));
    let twice = br#"{"name":"n","prevResult":{"cniVersion":"0.1.0","ip4":7,"ip4":{"ip":"10.0.0.1/8"}}}"#;
    assert_eq!(NetConf::parse(twice).unwrap().prev_result.unwrap().ips.len(), 1);
}
