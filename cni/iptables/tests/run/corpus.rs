// SPDX-License-Identifier: Apache-2.0
//! Dry runs of the recorded configurations (`scenarios/rules/`), line by line what upstream writes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use iptables::exit::Exit;
use serde_json::{Map, Value};

use crate::stage::Stage;

/// Upstream's fields and our flags.
const FLAGS: [(&str, &str); 16] = [
    ("InboundInterceptionMode", "--istio-inbound-interception-mode"),
    ("InboundPortsInclude", "--istio-inbound-ports"),
    ("InboundPortsExclude", "--istio-local-exclude-ports"),
    ("OutboundPortsInclude", "--istio-outbound-ports"),
    ("OutboundPortsExclude", "--istio-local-outbound-ports-exclude"),
    ("OutboundIPRangesInclude", "--istio-service-cidr"),
    ("OutboundIPRangesExclude", "--istio-service-exclude-cidr"),
    ("RerouteVirtualInterfaces", "--kube-virt-interfaces"),
    ("ExcludeInterfaces", "--istio-exclude-interfaces"),
    ("ProxyUID", "--proxy-uid"),
    ("ProxyGID", "--proxy-gid"),
    ("ProxyPort", "--envoy-port"),
    ("InboundCapturePort", "--inbound-capture-port"),
    ("InboundTunnelPort", "--inbound-tunnel-port"),
    ("InboundTProxyMark", "--istio-inbound-tproxy-mark"),
    ("InboundTProxyRouteTable", "--istio-inbound-tproxy-route-table"),
];
const SWITCHES: [(&str, &str); 4] = [
    ("RedirectDNS", "--redirect-dns"),
    ("CaptureAllDNS", "--capture-all-dns"),
    ("DropInvalid", "--drop-invalid"),
    ("DualStack", "--dual-stack"),
];
const VARIABLES: [(&str, &str); 3] = [
    ("OwnerGroupsInclude", "ISTIO_OUTBOUND_OWNER_GROUPS"),
    ("OwnerGroupsExclude", "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"),
    ("HostIPv4LoopbackCidr", "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR"),
];

fn cases() -> Vec<Value> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rules");
    let read = |name: &str| -> Vec<Value> {
        serde_json::from_str(&std::fs::read_to_string(directory.join(name)).unwrap()).unwrap()
    };
    [read("cases.json"), read("random.json")].concat()
}

fn is_on(config: &Map<String, Value>, field: &str) -> bool {
    config.get(field).is_some_and(|value| value == &Value::Bool(true))
}

/// A stage and a command line for the case's configuration.
fn call(config: &Map<String, Value>) -> (Stage, Vec<String>) {
    // An absent user or group is the default of configurations, not of command lines.
    let owner = |field: &str| field.ends_with("ID").then_some("1337");
    let text = |field: &str| match config.get(field).and_then(Value::as_str) {
        None => owner(field),
        text => text.filter(|text| !text.is_empty()),
    };
    let mut arguments = vec!["--dry-run".to_owned(), "--log_output_level=none".to_owned()];
    for (field, flag) in FLAGS {
        arguments.extend(text(field).into_iter().flat_map(|text| [flag.to_owned(), text.to_owned()]));
    }
    arguments.extend(
        SWITCHES.iter().filter(|(field, _)| is_on(config, field)).map(|(_, flag)| (*flag).to_owned()),
    );
    let addresses: &[&str] = match (is_on(config, "EnableIPv6"), is_on(config, "DualStack")) {
        (true, true) => &["10.9.0.2", "fd00:9::2"],
        (true, false) => &["fd00:9::2"],
        (false, _) => &["10.9.0.2"],
    };
    let servers =
        ["DNSServersV4", "DNSServersV6"].iter().filter_map(|field| config.get(*field)?.as_array()).flatten();
    let resolv: String =
        servers.filter_map(Value::as_str).map(|server| format!("nameserver {server}\n")).collect();
    let mut stage = Stage::new().with_addresses(addresses).with_file("/etc/resolv.conf", &resolv);
    for (field, variable) in VARIABLES {
        let value = config.get(field).and_then(Value::as_str);
        stage.env.extend(value.map(|value| (variable.to_owned(), value.to_owned())));
    }
    (stage, arguments)
}

/// One spelling for runs of spaces and for IPv6 addresses; nothing else is evened out.
fn normal(line: &str) -> String {
    let token = |token: &str| {
        let (address, length) =
            token.split_once('/').map_or((token, ""), |(address, length)| (address, length));
        match address.parse::<IpAddr>() {
            Ok(address @ IpAddr::V6(_)) if length.is_empty() => address.to_string(),
            Ok(address @ IpAddr::V6(_)) => format!("{address}/{length}"),
            _ => token.to_owned(),
        }
    };
    line.split(' ').filter(|part| !part.is_empty()).map(token).collect::<Vec<_>>().join(" ")
}

/// Restore text of one family as upstream writes it.
fn restore(tables: Option<&Value>) -> Vec<String> {
    let tables: BTreeMap<String, Vec<String>> =
        tables.map(|tables| serde_json::from_value(tables.clone()).unwrap()).unwrap_or_default();
    let mut lines = Vec::new();
    for (table, rules) in tables.into_iter().filter(|(_, rules)| !rules.is_empty()) {
        lines.push(format!("* {table}"));
        lines.extend(rules);
        lines.push("COMMIT".to_owned());
    }
    lines
}

fn compare(more: &[&str], wanted: impl Fn(&Value) -> Vec<String>) {
    let cases = cases();
    assert_eq!(cases.len(), 117);
    let mut differences = Vec::new();
    for case in &cases {
        let (stage, arguments) = call(case["config"].as_object().unwrap());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let seen = stage.run(&arguments);
        assert_eq!((seen.exit, seen.asked.len()), (Exit::Success, 0), "{}: {}", case["name"], seen.stderr);
        let got: Vec<String> = seen.stdout.lines().map(normal).collect();
        let want: Vec<String> = wanted(case).iter().map(|line| normal(line)).collect();
        assert!(!want.is_empty(), "{}", case["name"]);
        if got != want {
            let at = got
                .iter()
                .zip(&want)
                .position(|(got, want)| got != want)
                .unwrap_or(got.len().min(want.len()));
            differences.push(format!(
                "{} line {at}: got {:?}, want {:?}",
                case["name"],
                got.get(at),
                want.get(at)
            ));
        }
    }
    assert!(differences.is_empty(), "{} of 117 differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn a_dry_run_writes_upstream_s_restore_text() {
    compare(&[], |case| [restore(case.get("ipv4")), restore(case.get("ipv6"))].concat());
}

#[test]
fn a_native_dry_run_writes_upstream_s_commands() {
    compare(&["--native-nftables"], |case| serde_json::from_value(case["nft"].clone()).unwrap());
}

#[test]
fn a_dry_run_writes_to_a_file_where_one_is_named() {
    let path = std::env::temp_dir().join(format!("istio-iptables-dry-run-{}", std::process::id()));
    let stage = Stage::new().with_env(&[("DRY_RUN_FILE_PATH", path.to_str().unwrap())]);
    let seen = stage.run(&["--dry-run", "-i", "*"]);
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(written.starts_with("* nat\n") && seen.stdout.is_empty(), "{written}");
    assert_eq!(written, Stage::new().run(&["--dry-run", "-i", "*"]).stdout);
    let nowhere = Stage::new().with_env(&[("DRY_RUN_FILE_PATH", "/nonexistent/file")]);
    assert!(nowhere.failure(&["-n"]).contains("failed to write rules to /nonexistent/file"));
}
