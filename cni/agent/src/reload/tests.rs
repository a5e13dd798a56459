// SPDX-License-Identifier: Apache-2.0
//! A running agent hears its `ConfigMap`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use super::*;
use crate::api::testing::{Script, Scripted};
use crate::events;
use crate::settings::{RepairPolicy, load};

struct Agent {
    settings: watch::Receiver<Arc<Settings>>,
    report: watch::Receiver<SettingsReport>,
    own: watch::Sender<OwnFacts>,
    said: futures::channel::mpsc::UnboundedSender<Result<bytes::Bytes, std::io::Error>>,
    script: Script,
    metrics: Metrics,
    task: JoinHandle<()>,
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = [("POD_NAMESPACE", "mesh"), ("NODE_NAME", "n1")];
    pairs.iter().chain(&own).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn map(data: &Json) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "resourceVersion": "7"}, "data": data})
}

/// Agent with `data` in its `ConfigMap`.
fn agent(said: &[(&str, &str)], data: &Json) -> Agent {
    started(said, data, &[])
}

/// Answer to the question for a right.
fn review(allowed: bool) -> Scripted {
    let body = json!({"status": {"allowed": allowed}});
    Scripted::new(201, body.to_string()).to("selfsubjectaccessreviews")
}

/// The same, with answers to its first questions for a right.
fn started(said: &[(&str, &str)], data: &Json, answers: &[bool]) -> Agent {
    let live = Live::new(load(BTreeMap::new(), &environment(said), |_| false));
    let list = json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": [map(data)]});
    let (events_sender, watching) = Scripted::streamed();
    let list = Scripted::new(200, list.to_string()).to("configmaps");
    let answers = answers.iter().map(|allowed| review(*allowed));
    let script = Script::new([list].into_iter().chain(answers).chain([watching.to("configmaps")]));
    let metrics = Metrics::default();
    let (recorder, _writer) = events::channel(metrics.clone(), "n1");
    let (own, facts) = watch::channel(OwnFacts::default());
    let (settings, report) = (live.settings(), live.report());
    let follower = Follower { live, client: script.client(), metrics: metrics.clone(), recorder, own: facts };
    let task = tokio::spawn(follower.run(CancellationToken::new()));
    Agent { settings, report, own, said: events_sender, script, metrics, task }
}

impl Agent {
    fn say(&self, data: &Json) {
        let line = format!("{}\n", json!({"type": "MODIFIED", "object": map(data)}));
        self.said.unbounded_send(Ok(line.into())).unwrap();
    }

    async fn excluded(&mut self, want: &[&str]) {
        let entry = |settings: &Arc<Settings>| settings.entry.exclude_namespaces.clone();
        let right = self.settings.wait_for(|settings| entry(settings) == want);
        tokio::time::timeout(Duration::from_secs(5), right).await.unwrap().unwrap();
    }

    async fn refused(&mut self, want: &[&str]) {
        let names =
            |report: &SettingsReport| report.refused.iter().map(|one| one.key.name).collect::<Vec<_>>();
        let right = self.report.wait_for(|report| names(report) == want);
        tokio::time::timeout(Duration::from_secs(5), right).await.unwrap().unwrap();
    }

    async fn deletes_within(&mut self, limit: Duration) {
        let right = self.settings.wait_for(|settings| settings.repair.policy == Some(RepairPolicy::Delete));
        tokio::time::timeout(limit, right).await.unwrap().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_key_reaches_the_agent_although_its_environment_says_otherwise() {
    let mut agent = agent(&[("EXCLUDE_NAMESPACES", "a")], &json!({"EXCLUDE_NAMESPACES": "a"}));
    assert_eq!(agent.settings.borrow().entry.exclude_namespaces, ["a"], "before anybody was asked");
    agent.say(&json!({"EXCLUDE_NAMESPACES": "a,b"}));
    agent.excluded(&["a", "b"]).await;
    agent.say(&json!({}));
    agent.excluded(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_changed_before_the_watch_began_counts() {
    let mut agent = agent(&[("EXCLUDE_NAMESPACES", "old")], &json!({"EXCLUDE_NAMESPACES": "new"}));
    agent.excluded(&["new"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_goes_leaves_its_last_word() {
    let mut agent = agent(&[], &json!({"EXCLUDE_NAMESPACES": "a"}));
    agent.excluded(&["a"]).await;
    let line = format!("{}\n", json!({"type": "DELETED", "object": map(&json!({}))}));
    agent.said.unbounded_send(Ok(line.into())).unwrap();
    agent.say(&json!({"EXCLUDE_NAMESPACES": "a", "MONITORING_PORT": "1"}));
    agent.refused(&["monitoring-port"]).await;
    assert_eq!(agent.settings.borrow().entry.exclude_namespaces, ["a"]);
    assert!(!agent.settings.has_changed().unwrap(), "nothing happened in between");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_once_and_the_rest_is_applied() {
    let mut agent = agent(&[], &json!({}));
    agent.say(&json!({"MOUNTED_CNI_NET_DIR": "/x", "KUBECONFIG_MODE": "rw", "EXCLUDE_NAMESPACES": "a"}));
    agent.excluded(&["a"]).await;
    agent.refused(&["kubeconfig-mode", "mounted-cni-net-dir"]).await;
    agent.say(&json!({"MOUNTED_CNI_NET_DIR": "/x", "KUBECONFIG_MODE": "rw", "EXCLUDE_NAMESPACES": "b"}));
    agent.excluded(&["b"]).await;
    let text = agent.metrics.scrape(crate::metrics::Exposition::Prometheus).unwrap();
    for key in ["kubeconfig-mode", "mounted-cni-net-dir"] {
        let sample = format!("millrace_settings_rejected_total{{key=\"{key}\"}} 1");
        assert!(text.contains(&sample), "{sample}:\n{text}");
    }
    assert!(text.contains("\nmillrace_settings_refused 2\n"), "{text}");
    assert_eq!(agent.settings.borrow().kubeconfig.mode, 0o600);
}

#[tokio::test(start_paused = true)]
async fn a_policy_waits_for_the_word_of_the_api_server() {
    for (replies, deletes) in [
        (vec![review(true)], true),
        (vec![review(false), review(false)], false),
        (vec![Scripted::new(403, "")], false),
    ] {
        let mut agent = agent(&[], &json!({}));
        replies.into_iter().for_each(|reply| agent.script.push(reply));
        agent.say(&json!({"REPAIR_DELETE_PODS": "true", "EXCLUDE_NAMESPACES": "x"}));
        agent.excluded(&["x"]).await;
        agent.refused(if deletes { &[] } else { &["repair-delete-pods"] }).await;
        let policy = agent.settings.borrow().repair.policy;
        assert_eq!(policy, deletes.then_some(RepairPolicy::Delete));
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_the_start_waits_for_the_same_word() {
    let said = [("REPAIR_DELETE_PODS", "true")];
    for (allowed, want) in [(true, &[][..]), (false, &["repair-enabled"][..])] {
        let mut agent = started(&said, &json!({}), &[allowed, allowed]);
        assert!(!agent.settings.borrow().repair.enabled, "nobody has said yet that it may delete");
        let reported = agent.report.wait_for(|report| {
            !report.refused.iter().any(|one| matches!(one.why, Refusal::Lacks(_, Able::Unknown)))
        });
        tokio::time::timeout(Duration::from_secs(5), reported).await.unwrap().unwrap();
        agent.refused(want).await;
        assert_eq!(agent.settings.borrow().repair.enabled, allowed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_follows_the_config_map_counts_and_nothing_is_told_meanwhile() {
    let mut agent = agent(&[], &json!({}));
    [false, true].into_iter().for_each(|allowed| agent.script.push(review(allowed)));
    agent.say(&json!({"REPAIR_DELETE_PODS": "true"}));
    agent.deletes_within(Duration::from_secs(5)).await;
    let text = agent.metrics.scrape(crate::metrics::Exposition::Prometheus).unwrap();
    assert!(text.contains("millrace_settings_rejected_total{key=\"repair-delete-pods\"} 0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_granted_later_counts_and_its_lack_is_told_once() {
    let mut agent = agent(&[], &json!({}));
    [false, false, false, true].into_iter().for_each(|allowed| agent.script.push(review(allowed)));
    agent.say(&json!({"REPAIR_DELETE_PODS": "true"}));
    agent.refused(&["repair-delete-pods"]).await;
    agent.deletes_within(Duration::from_secs(11 * 60)).await;
    let text = agent.metrics.scrape(crate::metrics::Exposition::Prometheus).unwrap();
    assert!(text.contains("millrace_settings_rejected_total{key=\"repair-delete-pods\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_status_gate_waits_until_the_own_pod_is_known_to_be_on_the_nodes_network() {
    for (host_network, gate) in [(true, true), (false, false)] {
        let mut agent = agent(&[("MILLRACE_STATUS_GATE", "agent")], &json!({}));
        assert!(!agent.settings.borrow().entry.status_gate, "nothing is known of the own pod");
        agent.own.send_replace(OwnFacts { host_network: Some(host_network), ..OwnFacts::default() });
        let want = if gate { vec![] } else { vec!["millrace-status-gate"] };
        agent.refused(&want).await;
        assert_eq!(agent.settings.borrow().entry.status_gate, gate);
    }
}

#[test]
fn what_is_held_back_at_the_start_is_no_change_when_it_begins() {
    let mut live =
        Live::new(load(BTreeMap::new(), &environment(&[("REPAIR_REPAIR_PODS", "true")]), |_| false));
    assert!(!live.settings().borrow().repair.enabled, "it is not known whether the pod can");
    live.know(|abilities| abilities.enter_pods = Able::Yes);
    let applied = live.apply();
    assert_eq!(applied.iter().map(|key| key.name).collect::<Vec<_>>(), ["repair-enabled"]);
    assert_eq!(live.changed(&applied), [""; 0], "that is what was said");
    let said = |value: &str| Data::from([("REPAIR_ENABLED".to_owned(), value.to_owned())]);
    for (value, want) in
        [("false", vec!["repair-enabled"]), ("false", vec![]), ("true", vec!["repair-enabled"])]
    {
        live.hear(said(value));
        let applied = live.apply();
        assert_eq!(live.changed(&applied), want, "{value}");
    }
}

#[test]
fn what_belongs_with_the_pods_volumes_waits_for_another_pod() {
    let own = [("CHAINED_CNI_PLUGIN", "true"), ("CNI_CONF_NAME", "")];
    let mut live = Live::new(load(BTreeMap::new(), &environment(&own), |_| false));
    let data =
        [("CHAINED_CNI_PLUGIN", "false"), ("CNI_CONF_NAME", "istio-cni.conf"), ("EXCLUDE_NAMESPACES", "a")];
    live.hear(data.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let refused = live.decide();
    let names: Vec<_> = refused.iter().map(|one| (one.key.name, one.why.clone())).collect();
    assert_eq!(names, [("chained-cni-plugin", Refusal::Mount), ("cni-conf-name", Refusal::Mount)]);
    let settings = live.settings().borrow().clone();
    assert!(settings.chain.chained && settings.chain.conf_name.is_empty(), "{:?}", settings.chain);
    assert_eq!(settings.entry.exclude_namespaces, ["a"], "the rest is followed");
    // The container is started again: the kubelet's copy of the ConfigMap does not beat what the pod itself says.
    let mut live = Live::new(load(BTreeMap::new(), &environment(&own), |_| false));
    live.hear(data.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    live.decide();
    assert!(live.settings().borrow().chain.chained);
}

#[test]
fn a_gate_that_the_node_has_stays_until_the_own_pod_is_known_to_be_on_another_network() {
    let mut loaded = load(BTreeMap::new(), &environment(&[("MILLRACE_STATUS_GATE", "agent")]), |_| false);
    loaded.found.gated = true;
    let mut live = Live::new(loaded);
    let has_gate = |live: &Live| live.settings().borrow().entry.status_gate;
    assert!(has_gate(&live), "nothing is known of the own pod");
    for (able, refused, gate) in [(Able::Unknown, 0, true), (Able::Yes, 0, true), (Able::No, 1, false)] {
        live.know(|abilities| abilities.host_network = able);
        assert_eq!((live.decide().len(), has_gate(&live)), (refused, gate), "{able:?}");
    }
    assert!(live.decide().is_empty(), "it is told once");
}

#[tokio::test]
async fn a_template_that_comes_after_the_agent_and_changes_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("entry");
    let mut agent = agent(&[("CNI_NETWORK_CONFIG_FILE", path.to_str().unwrap())], &json!({}));
    assert!(agent.settings.borrow().blocked[0].contains("entry"), "{:?}", agent.settings.borrow().blocked);
    for text in [r#"{"type":"istio-cni"}"#, r#"{"name":"istio-cni"}"#] {
        std::fs::write(&path, text).unwrap();
        let followed = |settings: &Arc<Settings>| {
            settings.blocked.is_empty() && settings.chain.template.as_deref() == Some(text)
        };
        let right = agent.settings.wait_for(followed);
        tokio::time::timeout(Duration::from_secs(5), right).await.unwrap().unwrap();
    }
}
