// SPDX-License-Identifier: Apache-2.0
//! Runtime's calls of plugins, and its neighbours on the node.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use cluster::{
    AgentStandIn, CniCall, Configuration, Kubelet as _, Machines as _, MultusFile, PodName, PodStart,
    RuntimeCall,
};
use serde_json::{Value, json};

use crate::lab::{Lab, SOON, one};

fn commands(calls: &[(CniCall, cluster::CniAnswer)]) -> Vec<String> {
    calls.iter().map(|(call, _)| format!("{} {}", call.plugin, call.env["CNI_COMMAND"])).collect()
}

pub(crate) async fn a_failing_chain_is_undone_and_can_be_tried_again() {
    let lab = Lab::start().await;
    let good = lab.node().network();
    let mut bad = good.clone();
    bad["plugins"][1] = json!({ "type": "broken" });
    lab.script(
        "broken",
        r#"cat >/dev/null
[ $CNI_COMMAND = ADD ] && echo '{"code":11,"msg":"not now"}' && exit 1 || exit 0"#,
    );
    lab.write(&bad).await;
    let start = lab.pod("p", one("pause")).await;
    let PodStart::SandboxFailed { code, message } = start else { panic!("{start:?}") };
    assert_eq!(code, Some(11));
    assert!(message.ends_with(r#"plugin type="broken" failed (add): not now"#), "{message}");
    let calls = lab.node().cni_calls().unwrap();
    assert_eq!(commands(&calls), ["lab-net ADD", "broken ADD", "broken DEL", "lab-net DEL"]);
    let paths = lab.node().paths().unwrap();
    assert_eq!(fs::read_dir(&paths.netns_dir).unwrap().count(), 0);
    let condition = lab.status("p")["conditions"][1].clone();
    assert_eq!(condition["reason"], "FailedCreatePodSandBox", "{condition}");

    let mut network = good;
    network["plugins"].as_array_mut().unwrap().truncate(1);
    lab.write(&network).await;
    let again = lab.node().retry_pod(&PodName::new("default", "p"), SOON).await.unwrap();
    assert!(matches!(again, PodStart::Running { .. }), "{again:?}");
    let ids: Vec<_> =
        lab.node().cni_calls().unwrap().iter().map(|(call, _)| call.env["CNI_CONTAINERID"].clone()).collect();
    assert_ne!(ids[0], ids[4], "another attempt is another sandbox");
    lab.cluster.stop().await.unwrap();
}

/// Ends a cluster after a pod whose ADD and DEL were answered so by the plugin under test.
async fn left_by(add: &str, del: &str, profile: &str) -> (PodStart, Vec<String>) {
    let runtime = Some(profile.parse().unwrap());
    let lab = Lab::with(&["node-1"], |options| options.node.runtime = runtime).await;
    let mut network = lab.node().network();
    network["plugins"].as_array_mut().unwrap().truncate(1);
    network["plugins"].as_array_mut().unwrap().push(json!({ "type": "istio-cni" }));
    let text = format!("cat >/dev/null\ncase $CNI_COMMAND in ADD) {add} ;; DEL) {del} ;; esac");
    lab.script("istio-cni", &text);
    lab.write(&network).await;
    let start = lab.pod("p", one("pause")).await;
    (start, lab.cluster.stop().await.unwrap().networks)
}

pub(crate) async fn a_failure_of_the_plugin_under_test_that_a_runtime_only_logs_is_left() {
    let refused = r#"echo '{"code":11,"msg":"not now"}'; exit 1"#;
    let (_, left) = left_by(refused, "exit 0", "containerd-2").await;
    assert_eq!(left, Vec::<String>::new());
    let (_, left) = left_by(refused, refused, "containerd-2").await;
    let logged = r#"DEL after a failed ADD failed: plugin type="istio-cni" failed (delete): not now"#;
    assert_eq!(left, [logged]);
    let (_, left) = left_by(refused, "kill -9 $$", "cri-o").await;
    assert!(left[0].starts_with("DEL crashed: "), "{left:?}");
}

pub(crate) async fn a_result_without_an_address_is_no_sandbox_unless_the_runtime_takes_it() {
    let bare = r#"echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}'"#;
    let (start, _) = left_by(bare, "exit 0", "containerd-2").await;
    let PodStart::SandboxFailed { code: None, message } = start else { panic!("{start:?}") };
    assert!(message.contains("failed to find network info for sandbox \""), "{message}");
    let (start, _) = left_by(bare, "exit 0", "cri-o").await;
    let PodStart::Running { addresses } = start else { panic!("{start:?}") };
    assert!(addresses.is_empty(), "{addresses:?}");
}

pub(crate) async fn calls_carry_what_the_kubelet_sets() {
    let lab = Lab::start().await;
    lab.running("p", one("pause")).await;
    let pod = lab.cluster.api().unwrap().pod("default", "p").unwrap();
    let (call, answer) = lab.node().cni_calls().unwrap().remove(0);
    let id = &call.env["CNI_CONTAINERID"];
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let args = format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID={uid}"
    );
    assert_eq!(call.env["CNI_ARGS"], args);
    let names: Vec<_> = call.env.keys().map(String::as_str).collect();
    let expected =
        ["CNI_ARGS", "CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_PATH", "PATH"];
    assert_eq!(names, expected);
    let stdin: Value = serde_json::from_slice(&call.stdin).unwrap();
    assert_eq!((&stdin["name"], &stdin["cniVersion"]), (&json!("lab"), &json!("1.0.0")));
    assert_eq!(answer.exit, Some(0));

    let cached = lab.node().paths().unwrap().cache_dir.join(format!("results/lab-{id}-eth0"));
    let cached: Value = serde_json::from_slice(&fs::read(cached).unwrap()).unwrap();
    assert_eq!(cached["netns"], call.env["CNI_NETNS"]);
    assert_eq!(cached["result"], answer.json());
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn check_status_and_gc_reach_the_plugins() {
    let lab = Lab::start().await;
    let mut network = lab.node().network();
    network["cniVersion"] = json!("1.1.0");
    network["plugins"].as_array_mut().unwrap().truncate(1);
    lab.write(&network).await;
    let netns = lab.running("p", one("pause")).await.netns().unwrap();
    let call = |call| async { lab.node().runtime_call(call).await.unwrap() };
    let pod = PodName::new("default", "p");
    assert_eq!(call(RuntimeCall::Check(pod.clone())).await, Ok(()));
    assert_eq!(call(RuntimeCall::Status).await, Ok(()));
    assert_eq!(call(RuntimeCall::Gc).await, Ok(()));
    let (gc, _) = lab.node().cni_calls().unwrap().pop().unwrap();
    let gc: Value = serde_json::from_slice(&gc.stdin).unwrap();
    assert_eq!(gc["cni.dev/valid-attachments"][0]["ifname"], "eth0");
    assert_eq!(gc["cni.dev/valid-attachments"], gc["cni.dev/attachments"]);

    let down = move || {
        let path = "/proc/sys/net/ipv6/conf/eth0/disable_ipv6";
        fs::write(path, "1")
    };
    kubelet::netns::inside(netns.as_ref(), down).await.unwrap().unwrap();
    let failure = call(RuntimeCall::Check(pod.clone())).await.unwrap_err();
    assert_eq!((failure.plugin.as_deref(), failure.code), (Some("lab-net"), Some(101)), "{failure}");

    assert_eq!(call(RuntimeCall::Del(pod.clone())).await, Ok(()));
    assert_eq!(call(RuntimeCall::Del(pod)).await, Ok(()), "DEL comes twice and succeeds twice");
    lab.cluster.stop().await.unwrap();
}

fn ask(lab: &Lab, line: &str) -> String {
    let mut stream = UnixStream::connect(lab.node().paths().unwrap().run_dir.join("agent.sock")).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

pub(crate) async fn the_agent_serves_pods_and_misbehaves_on_request() {
    let lab = Lab::start().await;
    lab.running("p", one("pause")).await;
    let question = r#"{"version":1,"kind":"pod","namespace":"default","name":"p"}"#;
    lab.node().set_agent(AgentStandIn::Serving).await.unwrap();
    let found: Value = serde_json::from_str(&ask(&lab, question)).unwrap();
    assert_eq!((&found["response"], &found["pod"]["metadata"]["name"]), (&json!("found"), &json!("p")));
    let other = question.replace(r#""p""#, r#""p","uid":"another""#);
    assert_eq!(serde_json::from_str::<Value>(&ask(&lab, &other)).unwrap()["response"], "unknown");
    lab.node().set_agent(AgentStandIn::Old).await.unwrap();
    assert!(ask(&lab, question).contains("unsupported"));
    lab.node().set_agent(AgentStandIn::Garbage).await.unwrap();
    assert!(serde_json::from_str::<Value>(&ask(&lab, question)).is_err());
    let requests = lab.node().agent_requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[1]["uid"], "another");
    lab.node().set_agent(AgentStandIn::Absent).await.unwrap();
    assert!(!lab.node().paths().unwrap().run_dir.join("agent.sock").exists());
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn the_api_is_served_inside_the_node() {
    let lab = Lab::start().await;
    let connect = || std::net::TcpStream::connect("127.0.0.1:6443").is_ok();
    let node = lab.directory.join("node-1/node.netns");
    assert!(kubelet::netns::inside(&node, connect).await.unwrap());
    assert!(!connect(), "and nowhere else");
    let kubeconfig = lab.node().paths().unwrap().run_dir.join("istio-cni-kubeconfig");
    let text = fs::read_to_string(kubeconfig).unwrap();
    assert!(text.contains("https://127.0.0.1:6443"), "{text}");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_reboot_takes_all_of_run_and_the_programs_that_listened_there() {
    let lab = Lab::start().await;
    let runs = lab.running("p", one("pause")).await;
    let (paths, hand) = (lab.node().paths().unwrap(), lab.node().hand().await.unwrap());
    lab.cluster.serve_multus("node-1", &[], &MultusFile::default()).await.unwrap();
    lab.node().set_agent(AgentStandIn::Serving).await.unwrap();
    lab.cluster.leave_namespace("stray", "10.200.1.9".parse().unwrap()).await.unwrap();
    hand.make_directory(Path::new("/run/istio-cni/deep/deeper")).await.unwrap();
    let agent = UnixStream::connect(paths.run_dir.join("agent.sock")).unwrap();
    let multus = UnixStream::connect(lab.directory.join("node-1/root/run/multus/multus.sock")).unwrap();
    lab.cluster.reboot("node-1", Configuration::Stays).await.unwrap();
    for mut stream in [agent, multus] {
        stream.set_read_timeout(Some(SOON)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "whoever listened is gone");
    }
    let hand = lab.node().hand().await.unwrap();
    let left = async |directory: &str| {
        let entries = hand.list(Path::new(directory)).await.unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    for directory in ["/run/istio-cni", "/run/netns"] {
        assert_eq!(left(directory).await, Vec::<String>::new(), "{directory}");
    }
    let mut rest = left("/run").await;
    rest.sort();
    assert_eq!(rest, ["istio-cni", "netns"]);
    drop(runs);
    lab.cluster.stop().await.unwrap();
}
