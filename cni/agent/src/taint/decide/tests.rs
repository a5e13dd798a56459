// SPDX-License-Identifier: Apache-2.0

use serde_json::{Value, json};

use super::super::life::SETTLED;
use super::super::model::Word;
use super::*;

const KEY: &str = "cni.istio.io/not-ready";
const SOURCE: RuleRef = RuleRef { set: 1, rule: 0 };

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn at(second: u32) -> Option<k8s_openapi::jiff::Timestamp> {
    format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60).parse().ok()
}

fn taint(key: &str) -> Value {
    json!({"key": key, "effect": "NoSchedule"})
}

fn node(name: &str, taints: &[&str]) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        version: None,
        created: at(1),
        boot: "first".to_owned(),
        runtime: crate::runtime::RuntimeKind::Unknown,
        ready: true,
        said_since: at(2),
        agentless: None,
        taints: (!taints.is_empty()).then(|| taints.iter().map(|key| taint(key)).collect()),
    }
}

fn pod(node: &str, ready_since: Option<u32>) -> Pod {
    let word = ready_since.map(|since| Word { since: at(since), started: at(since), restarts: 0 });
    Pod { name: format!("mesh/cni-{node}"), uid: format!("cni of {node}"), node: node.to_owned(), word }
}

fn rule(name: &str) -> Rule {
    Rule { name: name.to_owned(), namespace: String::new(), labels: "a=b".to_owned(), fields: String::new() }
}

/// A leader that has listed these nodes and pods.
fn leader(policy: TaintPolicy, nodes: &[Node], pods: &[Pod]) -> (TaintState, Vec<TaintAction>) {
    let mut state = TaintState::new(policy, KEY);
    assert_eq!(state.decide(TaintEvent::Lead(Lead::Ours), seconds(0)), []);
    assert_eq!(state.decide(TaintEvent::Rules(1, vec![rule("cni")]), seconds(0)), []);
    assert_eq!(state.decide(TaintEvent::Nodes(nodes.to_vec()), seconds(0)), []);
    let actions = state.decide(TaintEvent::Pods(SOURCE, pods.to_vec()), seconds(0));
    (state, actions)
}

fn deeds(actions: &[TaintAction]) -> Vec<(&str, Deed)> {
    actions
        .iter()
        .filter_map(|action| match action {
            TaintAction::Patch { node, deed, .. } => Some((node.as_str(), *deed)),
            TaintAction::Leave { .. } => None,
        })
        .collect()
}

fn whys(actions: &[TaintAction]) -> Vec<&str> {
    actions
        .iter()
        .map(|action| match action {
            TaintAction::Patch { why, .. } | TaintAction::Leave { why, .. } => why.as_str(),
        })
        .collect()
}

#[test]
fn a_node_that_never_gets_an_agent_is_not_closed_and_one_that_is_closed_is_opened() {
    let labelled = |name: &str, key: &str, value: &str, taints: &Value| -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "labels": {key: value}}, "spec": {"taints": taints},
        }))
        .unwrap()
    };
    for (key, value, is_closed) in [
        ("kubernetes.io/os", "windows", false),
        ("type", "virtual-kubelet", false),
        ("eks.amazonaws.com/compute-type", "fargate", false),
        ("kubernetes.io/os", "linux", true),
        ("type", "large", true),
    ] {
        let nodes = [
            labelled("open", key, value, &json!([])),
            labelled("closed", key, value, &json!([{"key": KEY, "effect": "NoSchedule"}])),
        ];
        let (_, actions) = leader(TaintPolicy::Both, &nodes, &[]);
        let wanted = if is_closed { vec![("open", Deed::Add)] } else { vec![("closed", Deed::Remove)] };
        assert_eq!(deeds(&actions), wanted, "{key}={value}");
    }
}

#[test]
fn nothing_is_done_before_everything_is_known() {
    let mut state = TaintState::new(TaintPolicy::Both, KEY);
    state.decide(TaintEvent::Lead(Lead::Ours), seconds(0));
    assert_eq!(state.decide(TaintEvent::Nodes(vec![node("a", &[])]), seconds(0)), []);
    assert_eq!(state.decide(TaintEvent::Rules(1, vec![rule("x"), rule("y")]), seconds(0)), []);
    assert_eq!(state.decide(TaintEvent::Pods(SOURCE, vec![]), seconds(0)), []);
    let actions = state.decide(TaintEvent::Pods(RuleRef { rule: 1, ..SOURCE }, vec![]), seconds(0));
    assert_eq!(deeds(&actions), [("a", Deed::Add)]);
}

#[test]
fn a_fresh_node_loses_the_taint_once_its_pod_is_ready() {
    let (mut state, actions) = leader(TaintPolicy::OnlyRemove, &[node("a", &[KEY, "other"])], &[]);
    assert_eq!((deeds(&actions), whys(&actions).len()), (vec![], 1), "it is told why the taint stays");
    assert_eq!(state.decide(TaintEvent::Pod(SOURCE, pod("a", None)), seconds(1)), [], "and only once");
    let actions = state.decide(TaintEvent::Pod(SOURCE, pod("a", Some(9))), seconds(2));
    assert_eq!(deeds(&actions), [("a", Deed::Remove)]);
    let TaintAction::Patch { patch, .. } = &actions[0] else { panic!() };
    assert_eq!(patch[1]["value"], json!([taint("other")]));
    let of = |version, taints: &[&str]| Node { version: Some(version), ..node("a", taints) };
    assert_eq!(state.decide(TaintEvent::Node(of(6, &[KEY])), seconds(2)), [], "one at a time");
    assert_eq!(
        state.decide(TaintEvent::Ended("a".to_owned(), PatchOutcome::Done(of(7, &["other"]))), seconds(3)),
        []
    );
    let again = state.decide(TaintEvent::Node(of(8, &["other", KEY])), seconds(4));
    assert_eq!(deeds(&again), [("a", Deed::Remove)], "who taints a ready node is undone");
}

#[test]
fn a_response_does_not_undo_a_later_event() {
    let of = |version, taints: &[&str]| Node { version: Some(version), ..node("a", taints) };
    for (response, want) in [(6, vec![("a", Deed::Remove)]), (8, vec![])] {
        let (mut state, actions) = leader(TaintPolicy::OnlyRemove, &[of(5, &[KEY])], &[pod("a", Some(9))]);
        assert_eq!(deeds(&actions), [("a", Deed::Remove)]);
        // Somebody taints it again before the response is read.
        assert_eq!(state.decide(TaintEvent::Node(of(7, &[KEY])), seconds(1)), []);
        let done = TaintEvent::Ended("a".to_owned(), PatchOutcome::Done(of(response, &[])));
        assert_eq!(deeds(&state.decide(done, seconds(2))), want, "{response}");
    }
}

#[test]
fn a_response_without_a_comparable_version_does_not_undo_what_the_watch_told_since() {
    let of = |version, taints: &[&str]| Node { version, ..node("a", taints) };
    for (first, told, response) in [(None, None, None), (None, None, Some(7)), (Some(5), Some(8), None)] {
        for (is_told, want) in [(true, vec![("a", Deed::Remove)]), (false, vec![])] {
            let (mut state, actions) =
                leader(TaintPolicy::OnlyRemove, &[of(first, &[KEY])], &[pod("a", Some(9))]);
            assert_eq!(deeds(&actions), [("a", Deed::Remove)]);
            if is_told {
                assert_eq!(state.decide(TaintEvent::Node(of(told, &[KEY])), seconds(1)), []);
            }
            let done = TaintEvent::Ended("a".to_owned(), PatchOutcome::Done(of(response, &[])));
            assert_eq!(deeds(&state.decide(done, seconds(2))), want, "{first:?} {told:?} {response:?}");
        }
    }
}

#[test]
fn a_response_does_not_bring_a_node_back_that_is_gone() {
    for outcome in
        [PatchOutcome::Done(node("a", &[])), PatchOutcome::Conflict(node("a", &[])), PatchOutcome::Failed]
    {
        let (mut state, actions) = leader(TaintPolicy::Both, &[node("a", &[KEY])], &[pod("a", Some(9))]);
        assert_eq!(deeds(&actions), [("a", Deed::Remove)]);
        state.decide(TaintEvent::NodeGone("a".to_owned()), seconds(1));
        state.decide(TaintEvent::Ended("a".to_owned(), outcome.clone()), seconds(2));
        assert_eq!(state.failing(), [""; 0], "{outcome:?}");
        // Of a node that is there, it would be the reason for a taint.
        let actions = state.decide(TaintEvent::PodGone(SOURCE, pod("a", Some(9))), seconds(3));
        assert_eq!(deeds(&actions), [], "{outcome:?}");
    }
}

#[test]
fn a_node_gets_the_taint_back_only_where_that_is_the_policy() {
    for (policy, expected) in [(TaintPolicy::Both, vec![("a", Deed::Add)]), (TaintPolicy::OnlyRemove, vec![])]
    {
        let (mut state, actions) = leader(policy, &[node("a", &[])], &[pod("a", Some(9))]);
        assert_eq!(actions, []);
        let actions = state.decide(TaintEvent::Pod(SOURCE, pod("a", None)), seconds(1));
        assert_eq!(deeds(&actions), expected);
        let (mut state, _) = leader(policy, &[node("a", &[])], &[pod("a", Some(9))]);
        let actions = state.decide(TaintEvent::PodGone(SOURCE, pod("a", Some(9))), seconds(1));
        assert_eq!(deeds(&actions), expected);
        let (_, actions) = leader(policy, &[Node { ready: false, ..node("a", &[]) }], &[pod("a", Some(9))]);
        assert_eq!(deeds(&actions), expected);
    }
}

#[test]
fn who_only_removes_does_not_wait_for_what_the_taint_may_keep_from_the_node() {
    for (policy, expected) in
        [(TaintPolicy::Both, vec![]), (TaintPolicy::OnlyRemove, vec![("a", Deed::Remove)])]
    {
        let unready = Node { ready: false, ..node("a", &[KEY]) };
        let (_, actions) = leader(policy, &[unready], &[pod("a", Some(9))]);
        assert_eq!(deeds(&actions), expected);
    }
}

#[test]
fn every_rule_needs_a_pod_and_none_at_all_needs_nothing() {
    let mut state = TaintState::new(TaintPolicy::Both, KEY);
    state.decide(TaintEvent::Lead(Lead::Ours), seconds(0));
    state.decide(TaintEvent::Nodes(vec![node("a", &[KEY])]), seconds(0));
    let actions = state.decide(TaintEvent::Rules(1, vec![]), seconds(0));
    assert_eq!(deeds(&actions), [("a", Deed::Remove)]);
    state.decide(TaintEvent::Ended("a".to_owned(), PatchOutcome::Done(node("a", &[]))), seconds(0));
    state.decide(TaintEvent::Rules(2, vec![rule("x"), rule("y")]), seconds(1));
    let of = |rule| RuleRef { set: 2, rule };
    assert_eq!(state.decide(TaintEvent::Pods(SOURCE, vec![]), seconds(1)), [], "of rules that hold no more");
    state.decide(TaintEvent::Pods(of(0), vec![pod("a", Some(9))]), seconds(1));
    let actions = state.decide(TaintEvent::Pods(of(1), vec![]), seconds(1));
    assert_eq!(deeds(&actions), [("a", Deed::Add)]);
    assert!(whys(&actions)[0].contains("\"y\""), "{actions:?}");
}

#[test]
fn ready_from_before_a_reboot_is_not_ready() {
    let rebooted =
        |taints: &[&str]| Node { boot: "second".to_owned(), said_since: at(30), ..node("a", taints) };
    let (mut state, _) = leader(TaintPolicy::OnlyRemove, &[node("a", &[])], &[pod("a", Some(9))]);
    let actions = state.decide(TaintEvent::Node(rebooted(&[KEY])), seconds(1));
    assert_eq!(deeds(&actions), []);
    assert!(whys(&actions)[0].contains("mesh/cni-a was ready before the node was started"), "{actions:?}");
    let actions = state.decide(TaintEvent::Pod(SOURCE, pod("a", Some(40))), seconds(9));
    assert_eq!(deeds(&actions), [("a", Deed::Remove)]);
    let (mut state, _) = leader(TaintPolicy::Both, &[node("a", &[])], &[pod("a", Some(9))]);
    let actions = state.decide(TaintEvent::Node(rebooted(&[])), seconds(1));
    assert_eq!(deeds(&actions), [("a", Deed::Add)], "and the other policy taints at once");
}

#[test]
fn a_new_leader_that_cannot_tell_waits_and_then_believes() {
    for policy in [TaintPolicy::OnlyRemove, TaintPolicy::Both] {
        let restarted = Node { said_since: at(30), ..node("a", &[KEY]) };
        let (mut state, actions) = leader(policy, &[restarted], &[pod("a", Some(9))]);
        assert!(whys(&actions)[0].contains("may have become ready"), "{actions:?}");
        assert_eq!(state.due(seconds(0)), Some(SETTLED));
        assert_eq!(deeds(&state.decide(TaintEvent::Tick, SETTLED)), [("a", Deed::Remove)]);
        let untainted = Node { said_since: at(30), ..node("a", &[]) };
        let (_, actions) = leader(policy, &[untainted], &[pod("a", Some(9))]);
        assert_eq!(actions, [], "nothing is tainted on a mere suspicion");
    }
}

#[test]
fn a_list_after_a_break_counts_as_having_seen_the_reboot() {
    let (mut state, _) = leader(TaintPolicy::OnlyRemove, &[node("a", &[])], &[pod("a", Some(9))]);
    let other = Node { uid: "other".to_owned(), created: at(20), ..node("a", &[KEY]) };
    let actions = state.decide(TaintEvent::Nodes(vec![other]), seconds(60));
    assert_eq!(deeds(&actions), []);
}

#[test]
fn who_does_not_lead_looks_on_and_knows_what_happened() {
    let mut state = TaintState::new(TaintPolicy::OnlyRemove, KEY);
    state.decide(TaintEvent::Rules(1, vec![rule("cni")]), seconds(0));
    state.decide(TaintEvent::Nodes(vec![node("a", &[KEY]), node("b", &[KEY])]), seconds(0));
    let pods = vec![pod("a", Some(9)), pod("b", Some(9))];
    assert_eq!(state.decide(TaintEvent::Pods(SOURCE, pods), seconds(0)), []);
    let rebooted = Node { boot: "second".to_owned(), ..node("a", &[KEY]) };
    assert_eq!(state.decide(TaintEvent::Node(rebooted), seconds(1)), []);
    assert_eq!(deeds(&state.decide(TaintEvent::Lead(Lead::Ours), seconds(2))), [("b", Deed::Remove)]);
    assert_eq!(state.decide(TaintEvent::Lead(Lead::NotOurs), seconds(3)), []);
    assert!(state.is_through());
}

#[test]
fn a_conflict_is_tried_again_with_what_is_there_now() {
    let (mut state, _) = leader(TaintPolicy::OnlyRemove, &[node("a", &[KEY])], &[pod("a", Some(9))]);
    let fresh = node("a", &["other", KEY]);
    let ended = TaintEvent::Ended("a".to_owned(), PatchOutcome::Conflict(fresh.clone()));
    assert_eq!(state.decide(ended, seconds(1)), []);
    let due = state.due(seconds(1)).unwrap();
    assert_eq!(due, seconds(1) + Duration::from_millis(100));
    let actions = state.decide(TaintEvent::Tick, due);
    let TaintAction::Patch { patch, .. } = &actions[0] else { panic!() };
    assert_eq!(patch[0]["value"], Value::from(fresh.taints.unwrap()));
    let gone = TaintEvent::Ended("a".to_owned(), PatchOutcome::Conflict(node("a", &[])));
    assert_eq!(state.decide(gone, seconds(2)), []);
    assert_eq!(state.decide(TaintEvent::Tick, seconds(9)), [], "somebody else did it");
    assert!(state.is_through());
}

#[test]
fn failures_slow_down_and_are_never_forgotten() {
    let (mut state, _) = leader(TaintPolicy::OnlyRemove, &[node("a", &[KEY])], &[pod("a", Some(9))]);
    let (mut now, mut waits) = (seconds(0), Vec::new());
    for _ in 0..12 {
        state.decide(TaintEvent::Ended("a".to_owned(), PatchOutcome::Failed), now);
        assert_eq!(deeds(&state.decide(TaintEvent::Node(node("a", &[KEY])), now)), [], "it has to wait");
        let due = state.attempts["a"].due.unwrap();
        waits.push((due - now).as_millis());
        now = due;
        assert_eq!(deeds(&state.decide(TaintEvent::Tick, now)), [("a", Deed::Remove)]);
    }
    assert_eq!(
        waits,
        [100, 200, 400, 800, 1600, 30_000, 60_000, 120_000, 240_000, 300_000, 300_000, 300_000]
    );
}

#[test]
fn a_node_that_is_gone_is_nobodys_business() {
    let (mut state, _) = leader(TaintPolicy::OnlyRemove, &[node("a", &[KEY])], &[pod("a", Some(9))]);
    assert_eq!(state.decide(TaintEvent::Ended("a".to_owned(), PatchOutcome::Gone), seconds(1)), []);
    assert!(state.is_through() && state.due(seconds(1)).is_none() && state.tainted() == 0);
    let actions = state.decide(
        TaintEvent::Node(Node { uid: "new".to_owned(), created: at(20), ..node("a", &[KEY]) }),
        seconds(2),
    );
    assert_eq!(deeds(&actions), [], "the pod is that of the former node");
}

#[test]
fn pods_that_are_gone_or_have_no_node_yet_are_not_kept() {
    let (mut state, _) = leader(TaintPolicy::Both, &[node("a", &[])], &[pod("", None), pod("b", None)]);
    assert_eq!(
        state.decide(TaintEvent::Pod(SOURCE, Pod { uid: "x".to_owned(), ..pod("", None) }), seconds(1)),
        []
    );
    let here = Pod { uid: "x".to_owned(), ..pod("a", Some(9)) };
    state.decide(TaintEvent::Pod(SOURCE, here.clone()), seconds(2));
    let nodes = |state: &TaintState| {
        state.pods.iter().flatten().flat_map(BTreeMap::keys).cloned().collect::<Vec<_>>()
    };
    assert_eq!(nodes(&state), ["a", "b"]);
    state.decide(TaintEvent::PodGone(SOURCE, here), seconds(3));
    state.decide(TaintEvent::PodGone(SOURCE, pod("b", None)), seconds(3));
    assert!(nodes(&state).is_empty(), "{:?}", state.pods);
}
