// SPDX-License-Identifier: Apache-2.0
//! Nodes whose kubelet tries again, and containers with roots of their own: what an agent that installs the plugin needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{Cluster as _, PodName};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use kubelet::Installed;
use serde_json::{Value, json};

use crate::lab::{Lab, SOON, container, one};

/// Short enough for a test, long enough to be seen.
const BACK_OFF: Duration = Duration::from_millis(100);

async fn lab() -> Lab {
    Lab::with(|options| {
        options.installed = Installed::ByAgent;
        options.back_off = Some(BACK_OFF);
    })
    .await
}

/// Waits until a pod's status is as wanted.
async fn status(lab: &Lab, name: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
    let found = lab.cluster.api().until(|api| {
        let status = api.pod("default", name)?["status"].clone();
        wanted(&status).then_some(status)
    });
    tokio::time::timeout(SOON, found).await.unwrap()
}

pub(crate) async fn an_init_container_crashes_until_it_has_what_it_needs() {
    let lab = lab().await;
    let mut failing = container("istio-validation", "exit 126");
    failing["env"] =
        json!([{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }]);
    let spec = json!({ "initContainers": [failing], "containers": [container("main", "pause")] });
    lab.pod("p", spec).await;
    let init = |status: &Value| status["initContainerStatuses"][0].clone();
    let waiting =
        status(&lab, "p", |status| init(status)["state"]["waiting"]["reason"] == "CrashLoopBackOff").await;
    let waiting = init(&waiting);
    assert_eq!(waiting["lastState"]["terminated"]["exitCode"], 126, "{waiting}");
    assert_eq!(waiting["restartCount"], 1, "the first new try came at once: {waiting}");
    let later = status(&lab, "p", |status| init(status)["restartCount"].as_u64() > Some(1)).await;
    assert_eq!(later["phase"], "Pending");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn what_never_restarts_fails_for_good() {
    let lab = lab().await;
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [container("istio-validation", "exit 126")],
        "containers": [container("main", "pause")],
    });
    lab.pod("p", spec).await;
    let failed = status(&lab, "p", |status| status["phase"] == "Failed").await;
    assert_eq!(failed["initContainerStatuses"][0]["restartCount"], 0);
    let spec = json!({ "restartPolicy": "Never", "containers": [container("main", "exit 0")] });
    lab.pod("q", spec).await;
    status(&lab, "q", |status| status["phase"] == "Succeeded").await;
    lab.cluster.stop().await.unwrap();
}

fn environment(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(crate) async fn a_container_with_volumes_of_the_node_has_a_root_of_its_own() {
    let lab = lab().await;
    lab.cluster
        .apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": "default" },
            "data": { "A": "map", "B": "map" },
        }))
        .await
        .unwrap();
    let mount = |name: &str, at: &str| json!({ "name": name, "mountPath": at, "readOnly": true });
    let mut netns = mount("netns", "/host/var/run/netns");
    netns["mountPropagation"] = json!("HostToContainer");
    let volume = |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path } });
    let mut main = container("main", "pause");
    main["envFrom"] = json!([{ "configMapRef": { "name": "settings" } }]);
    main["env"] = json!([
        { "name": "B", "value": "own" },
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
    ]);
    main["volumeMounts"] = json!([mount("conf", "/host/etc/cni/net.d"), mount("proc", "/host/proc"), netns]);
    let volumes =
        [volume("conf", "/etc/cni/net.d"), volume("proc", "/proc"), volume("netns", "/var/run/netns")];
    let pod = lab.running("p", json!({ "containers": [main], "volumes": volumes })).await;
    let pid = pod.process("main").unwrap();
    let inside = |path: &str| PathBuf::from(format!("/proc/{pid}/root{path}"));
    assert!(inside("/host/etc/cni/net.d/10-lab.conflist").is_file());
    assert!(!inside("/run/lab-0").exists() && !inside("/.former").exists(), "nothing of the lab is there");
    assert!(fs::write(inside("/host/etc/cni/net.d/x"), "").is_err(), "read only");
    let processes = fs::read_dir(inside("/host/proc")).unwrap().flatten();
    let numbers = processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    assert_eq!(numbers.count(), 2, "the node's first process, and this one");
    let env = environment(pid);
    assert_eq!((env["A"].as_str(), env["B"].as_str()), ("map", "own"));
    assert_eq!(env["IP"], pod.addresses()[0].to_string());
    let token = inside("/run/secrets/kubernetes.io/serviceaccount/token");
    let before = fs::read_to_string(&token).unwrap();
    let credentials = lab.cluster.credentials(&PodName::new("default", "p")).await.unwrap();
    credentials.renew().unwrap();
    assert_ne!(fs::read_to_string(&token).unwrap(), before, "through the link that was exchanged");

    let seen = || fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let count = |text: &str| text.lines().filter(|line| line.contains(" /host/var/run/netns/")).count();
    let before = count(&seen());
    lab.running("q", one("pause")).await;
    assert_eq!(count(&seen()), before + 1, "a namespace that was made later is seen");
    lab.cluster.stop().await.unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

pub(crate) async fn a_pod_stays_until_its_network_lets_it_go() {
    let lab = lab().await;
    let mut network = lab.node().network();
    network["plugins"].as_array_mut().unwrap().push(json!({ "type": "sticky" }));
    let held = lab.directory.join("held");
    lab.script(
        "sticky",
        &format!(
            r#"input=$(cat)
[ $CNI_COMMAND = DEL ] && [ -e {held} ] && echo '{{"code":11,"msg":"held"}}' && exit 1
[ $CNI_COMMAND = ADD ] && echo "$input" | sed 's/.*"prevResult"://; s/,"type":"sticky"}}$//'
exit 0"#,
            held = held.display()
        ),
    );
    lab.write(&network).await;
    lab.running("p", one("pause")).await;
    fs::write(&held, "").unwrap();
    let pods: Api<Pod> = Api::namespaced(lab.cluster.api().client(), "default");
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    let told = lab.cluster.api().until(|_| {
        let dels = lab.node().cni_calls().into_iter().filter(|(call, _)| call.env["CNI_COMMAND"] == "DEL");
        (dels.count() > 1).then_some(())
    });
    tokio::time::timeout(SOON, told).await.unwrap();
    assert!(lab.cluster.api().pod("default", "p").is_some(), "it is still being deleted");
    fs::remove_file(&held).unwrap();
    let gone = lab.cluster.api().until(|api| api.pod("default", "p").is_none().then_some(()));
    tokio::time::timeout(SOON, gone).await.unwrap();
    assert_eq!(lab.cluster.stop().await.unwrap(), Vec::<String>::new());
}

pub(crate) async fn a_reboot_takes_what_runs_and_the_pods_start_again() {
    let lab = lab().await;
    let pod = lab.running("p", one("pause")).await;
    let (pid, netns) = (pod.process("main").unwrap(), pod.netns());
    let paths = lab.node().paths().unwrap();
    fs::write(paths.run_dir.join("x"), "").unwrap();
    lab.cluster.reboot("node-1").await.unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists() && !Path::new(&netns).exists());
    assert!(!paths.run_dir.join("x").exists() && paths.conf_dir.join("10-lab.conflist").exists());
    lab.cluster.comes_up(&PodName::new("default", "p"), SOON).await.unwrap();
    let pod = lab.cluster.workload("default", "p").await.unwrap();
    assert_ne!(pod.netns(), netns);
    let calls = lab.node().cni_calls();
    let commands: Vec<_> = calls
        .iter()
        .map(|(call, _)| (call.env["CNI_COMMAND"].as_str(), call.env["CNI_NETNS"].is_empty()))
        .collect();
    assert_eq!(commands, [("ADD", false), ("DEL", true), ("ADD", false)]);
    lab.cluster.stop().await.unwrap();
}
