// SPDX-License-Identifier: Apache-2.0
//! One function per reader of what others wrote: it reads any bytes, panics on none, and what it accepts holds together.
//! `fuzz_targets/` hands them to `cargo fuzz`; `tests/bounded.rs` runs them as properties, which is what CI does.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use netfilter::describe::describe;
use netfilter::expression;
use netfilter::snapshot::NfFamily;
use protocol::args::CniArgs;
use protocol::cri;
use protocol::directories::of_runtime;
use protocol::netconf::NetConf;
use protocol::pod::PodFacts;
use redirect::annotations::Annotation;
use redirect::config::Config;
use redirect::found::{FoundRules, json, native, save};
use redirect::host::Environment;
use redirect::ruleset::{Dialect, Family, Ruleset};
use redirect::{Enrolment, enrol, generate, text};

/// Annotation values, one a line, in the order of [`Annotation::ALL`]: a pod with them is skipped, refused with a message, or gets
/// rules that can be written in both dialects.
pub fn annotations(data: &[u8]) {
    let Some(pod) = pod(data) else { return };
    match enrol(&pod) {
        Ok(Enrolment::Enrol(redirect)) => {
            let own = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
            let Ok(config) = redirect.config_for([own], &Environment::default()) else {
                unreachable!("it has an address");
            };
            written(Config { ipv6: true, ..config });
        }
        Ok(Enrolment::Skip(_)) => {}
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
    }
}

/// An injected pod with the annotations of `data`.
fn pod(data: &[u8]) -> Option<PodFacts> {
    let values = String::from_utf8_lossy(data);
    let mut annotations: BTreeMap<&str, &str> =
        Annotation::ALL.iter().map(|annotation| annotation.key()).zip(values.split('\n')).collect();
    annotations.insert("sidecar.istio.io/status", "{}");
    let pod = serde_json::json!({
        "metadata": { "name": "p", "namespace": "n", "uid": "u", "annotations": annotations },
        "spec": { "containers": [{ "name": "app" }, { "name": "istio-proxy" }] },
    });
    serde_json::from_value(pod).ok()
}

/// True if the pod of these annotations gets rules; for tests of the target itself.
#[must_use]
pub fn is_enrolled(data: &[u8]) -> bool {
    matches!(pod(data).map(|pod| enrol(&pod)), Some(Ok(Enrolment::Enrol(_))))
}

/// Rules of an accepted configuration exist in both dialects.
fn written(mut config: Config) {
    for dialect in [Dialect::Iptables, Dialect::Nft] {
        config.dialect = dialect;
        let rules: Ruleset = match generate::ruleset(&config) {
            Ok(rules) => rules,
            Err(error) => panic!("an accepted pod has no rules: {error}"),
        };
        match dialect {
            Dialect::Iptables => {
                assert!(text::restore(&rules, Family::V4).ends_with("COMMIT\n"), "a table is committed");
            }
            Dialect::Nft => assert!(!text::native(&rules).is_empty(), "there are commands"),
        }
    }
}

/// A configuration on standard input, or `CNI_ARGS`: read, or refused in a form that a runtime can print.
pub fn netconf(data: &[u8]) {
    match NetConf::parse(data) {
        Ok(conf) => {
            assert!(conf.agent_socket().starts_with(conf.run_dir()), "the socket is in the run directory")
        }
        Err(error) => assert!(serde_json::from_str::<serde_json::Value>(&error.to_json()).is_ok(), "JSON"),
    }
    if let Err(error) = CniArgs::parse(&String::from_utf8_lossy(data)) {
        assert!(!error.msg.is_empty(), "a refusal says why");
    }
}

/// Netlink replies to a listing of rules: read, judged and described, or malformed.
pub fn netlink_replies(data: &[u8]) {
    if let Ok(snapshot) = netfilter::read::replies(data) {
        let _ = netfilter::has_rules_of_ours(&snapshot);
        let found = netfilter::found_rules(&snapshot);
        assert_eq!(count(&found), snapshot.counters().count(), "no rule is lost");
    }
    expressions(data);
}

/// A rule's expressions: read and described, or malformed.
fn expressions(data: &[u8]) {
    let _ = expression::parse(data);
    let _ = expression::jumps_to(data);
    for family in [NfFamily::Ip, NfFamily::Ip6, NfFamily::Inet] {
        let _ = describe(family, data);
    }
}

/// Output of `iptables-save`: read, or rejected with an existing line number.
pub fn iptables_save(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match save::parse(&text, Family::V4) {
        Ok(rules) => assert!(count(&rules) <= text.lines().count(), "a line is at most one rule"),
        Err(error) => assert!((1..=text.lines().count()).contains(&error.line), "{error}"),
    }
}

/// Output of `nft -j list ruleset`: read, or rejected.
pub fn nft_json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(rules) = json::parse(&text) {
        assert!(count(&rules) <= text.matches("\"rule\"").count(), "an object is at most one rule");
    }
}

/// Output of `nft list ruleset`: read, or rejected with an existing line number.
pub fn nft_list(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match native::parse(&text) {
        Ok(rules) => assert!(count(&rules) <= text.lines().count(), "a line is at most one rule"),
        Err(error) => assert!((1..=text.lines().count()).contains(&error.line), "{error}"),
    }
}

fn count(rules: &FoundRules) -> usize {
    rules.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len()).sum()
}

/// A container runtime's answer to `Status`: what is read of it is in it, and no longer.
pub fn cri_status(data: &[u8]) {
    let Ok(info) = cri::info(data) else { return };
    let read: usize = info.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(read <= data.len(), "nothing is read twice");
    if let Some(loaded) = cri::loaded(&info) {
        assert!(info.contains_key("cniconfig"), "{loaded:?}");
    }
}

/// A container runtime's configuration: directories are absolute, and the names of networks are not empty.
pub fn runtime_config(data: &[u8]) {
    let found = of_runtime(&String::from_utf8_lossy(data));
    assert!(found.net.iter().chain(&found.bin).all(|path| path.starts_with('/')));
    assert!(found.default_network.is_none_or(|name| !name.is_empty()));
}
