// SPDX-License-Identifier: Apache-2.0
//! Upstream's injector and the lab's make the same of pods, but for what `scenarios/injection/differences.yaml` lists.
//!
//! `scenarios/injection/cases.yaml` has pods and what is said of their meshes, in upstream's words; `upstream.json` what upstream's injector made of
//! each (`ci/update-injection`).

#![expect(clippy::unwrap_used, reason = "a file that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use injector::config::Rules;
use injector::openshift::proxy_ids;
use injector::{Config, Mode, Placement, Platform, Programming, Provider, answer, inject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Image that upstream's chart has for proxies.
const IMAGE: &str = "registry.istio.io/testing/proxyv2:latest";
const STATUS: &str = "sidecar.istio.io/status";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    values: Value,
    #[serde(default)]
    mesh: Value,
    #[serde(default)]
    native: bool,
    #[serde(default)]
    platform: String,
    #[serde(default)]
    namespace: Map<String, Value>,
    pod: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// Beginnings of paths, words apart; `*` is any word.
    paths: Vec<String>,
    #[expect(dead_code, reason = "for people")]
    reason: String,
}

fn read<T: DeserializeOwned>(file: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/injection").join(file);
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

impl Case {
    /// The lab's form of `values`, `mesh` and istiod's settings.
    fn config(&self) -> Config {
        let (cni, proxy) = (&self.values["pilot"]["cni"], &self.values["global"]["proxy"]);
        let (mesh, of_proxies) = (&self.mesh, &self.mesh["defaultConfig"]);
        let text = |value: &Value, default: String| value.as_str().map_or(default, str::to_owned);
        let port =
            |value: &Value, default: u16| value.as_u64().map_or(default, |port| port.try_into().unwrap());
        let usual = Config::default();
        let on_openshift = self.platform == "openshift";
        let read =
            self.namespace.iter().filter(|_| on_openshift).map(|(name, value)| (name.clone(), value.clone()));
        let ids = proxy_ids(&read.collect());
        let metadata = of_proxies["proxyMetadata"].as_object().into_iter().flatten();
        Config {
            provider: if cni["provider"] == "multus" { Provider::Multus } else { Provider::Chained },
            platform: if on_openshift { Platform::OpenShift } else { Platform::Plain },
            programming: if cni["enabled"] == true { Programming::Cni } else { Programming::Init },
            mode: if of_proxies["interceptionMode"] == "TPROXY" { Mode::Tproxy } else { Mode::Redirect },
            placement: if self.native { Placement::Native } else { Placement::Beside },
            rules: if self.values["global"]["nativeNftables"] == true {
                Rules::Nftables
            } else {
                Rules::Iptables
            },
            proxy_port: port(&mesh["proxyListenPort"], usual.proxy_port),
            inbound_port: port(&mesh["proxyInboundListenPort"], usual.inbound_port),
            status_port: port(&proxy["statusPort"], usual.status_port),
            uid: ids.uid,
            gid: ids.gid,
            include_ranges: text(&proxy["includeIPRanges"], usual.include_ranges),
            exclude_ranges: text(&proxy["excludeIPRanges"], usual.exclude_ranges),
            include_inbound_ports: text(&proxy["includeInboundPorts"], usual.include_inbound_ports),
            exclude_inbound_ports: text(&proxy["excludeInboundPorts"], usual.exclude_inbound_ports),
            include_outbound_ports: text(&proxy["includeOutboundPorts"], usual.include_outbound_ports),
            exclude_outbound_ports: text(&proxy["excludeOutboundPorts"], usual.exclude_outbound_ports),
            metadata: metadata
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            image: IMAGE.to_owned(),
            log_level: usual.log_level,
        }
    }

    /// The pod, or why it is refused: the form in which upstream's answers are recorded.
    fn injected(&self) -> Value {
        let request = json!({ "namespace": self.pod["metadata"]["namespace"], "object": self.pod });
        let response = &answer(&json!({ "request": request }), &self.config())["response"];
        match (&response["allowed"], &response["patch"]) {
            (Value::Bool(true), Value::Null) => self.pod.clone(),
            (Value::Bool(true), _) => inject(&self.pod, &self.config()).unwrap(),
            _ => json!({ "refused": response["status"]["message"] }),
        }
    }
}

type Leaves = BTreeMap<Vec<String>, Value>;

/// Fields by their paths, elements of lists by their names; the order of containers is a field, too. What is empty is none.
fn leaves(at: &[String], value: &Value, into: &mut Leaves) {
    let below = |name: &str| [at, &[name.to_owned()]].concat();
    if at.last().is_some_and(|name| name == STATUS)
        && let Some(text) = value.as_str()
    {
        let names: Value = serde_json::from_str(text).unwrap();
        return leaves(&below("JSON"), &names, into);
    }
    match value {
        Value::Null => {}
        Value::Object(fields) => fields.iter().for_each(|(name, value)| leaves(&below(name), value, into)),
        Value::Array(all) if all.iter().all(|one| one["name"].is_string()) => {
            for one in all {
                leaves(&below(one["name"].as_str().unwrap()), one, into);
            }
            if at.last().is_some_and(|name| name.ends_with("ontainers")) && !all.is_empty() {
                into.insert(below("order"), all.iter().map(|one| one["name"].clone()).collect());
            }
        }
        other => drop(into.insert(at.to_vec(), other.clone())),
    }
}

fn leaves_of(pod: &Value) -> Leaves {
    let mut all = Leaves::new();
    leaves(&[], pod, &mut all);
    all
}

fn covers(pattern: &str, path: &[String]) -> bool {
    let words: Vec<_> = pattern.split(' ').collect();
    words.len() <= path.len() && words.iter().zip(path).all(|(word, name)| *word == "*" || word == name)
}

#[test]
fn upstreams_injector_makes_the_same_of_every_pod() {
    let (cases, differences): (Vec<Case>, Vec<Difference>) = (read("cases.yaml"), read("differences.yaml"));
    let recorded: BTreeMap<String, Value> = read("upstream.json");
    let patterns: BTreeSet<_> = differences.iter().flat_map(|one| &one.paths).collect();
    let (mut unlisted, mut unused) = (String::new(), patterns.clone());
    assert!(cases.len() >= 60, "only {} cases are there", cases.len());
    assert_eq!(cases.len(), recorded.len(), "ci/update-injection was not run");
    for case in &cases {
        let (theirs, ours) = (&recorded[&case.name], case.injected());
        if let Some(message) = theirs["refused"].as_str() {
            // Upstream says it last in a sentence of its own.
            let why = ours["refused"].as_str().unwrap_or_default();
            if why.is_empty() || !message.contains(why) {
                let _ = writeln!(unlisted, "{}: upstream refuses it ({message}), the lab: {ours}", case.name);
            }
            continue;
        }
        let (theirs, ours) = (leaves_of(theirs), leaves_of(&ours));
        for path in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
            if theirs.get(path) == ours.get(path) {
                continue;
            }
            let listed: Vec<_> = patterns.iter().filter(|pattern| covers(pattern, path)).collect();
            if listed.is_empty() {
                let [theirs, ours] = [&theirs, &ours].map(|all| all.get(path).unwrap_or(&Value::Null));
                let _ =
                    writeln!(unlisted, "{}: {}: {theirs} upstream, {ours} here", case.name, path.join(" "));
            }
            unused.retain(|pattern| !listed.contains(&pattern));
        }
    }
    assert!(unlisted.is_empty(), "{unlisted}");
    assert!(unused.is_empty(), "differences.yaml lists what does not differ: {unused:?}");
}
