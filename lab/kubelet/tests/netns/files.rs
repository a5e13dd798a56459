// SPDX-License-Identifier: Apache-2.0
//! Files of containers, and who may write them.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;

use serde_json::{Value, json};

use crate::lab::{Lab, container};

/// A setting of the network that the reader is in.
const SETTING: &str = "proc/sys/net/ipv4/ip_forward";

/// Files of a container's process, of a pod with a volume of the node and an empty one, or without any.
async fn view(lab: &Lab, name: &str, context: Value, with_volumes: bool) -> impl Fn(&str) -> bool + use<> {
    let mut main = container("main", "pause");
    main["securityContext"] = context;
    let mut spec = json!({ "containers": [main] });
    if with_volumes {
        spec["volumes"] =
            json!([{ "name": "proc", "hostPath": { "path": "/proc" } }, { "name": "tmp", "emptyDir": {} }]);
        let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
        spec["containers"][0]["volumeMounts"] = json!([mount("proc", "/host/proc"), mount("tmp", "/tmp")]);
    }
    drop(lab.running(name, spec).await);
    let id = lab.status(name)["containerStatuses"][0]["containerID"].as_str().unwrap().to_owned();
    let root = format!("/proc/{}/root", id.strip_prefix("lab://").unwrap());
    move |path| {
        let path = format!("{root}/{path}");
        let is_new = !fs::exists(&path).unwrap();
        match OpenOptions::new().write(true).create(is_new).truncate(false).open(&path) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => false,
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

pub(crate) async fn what_a_container_may_write_follows_its_security_context() {
    let lab = Lab::start().await;
    let usual = view(&lab, "usual", json!({}), true).await;
    assert_eq!(
        ["x", "tmp/x", SETTING, "host/proc/sys/net/ipv4/ip_forward"].map(usual),
        [true, true, false, true]
    );
    let read_only = json!({ "readOnlyRootFilesystem": true });
    let locked = view(&lab, "locked", read_only.clone(), true).await;
    assert_eq!(["x", "etc/x", "run/x", "tmp/x", SETTING].map(locked), [false, false, false, true, false]);
    let privileged = view(&lab, "privileged", json!({ "privileged": true }), true).await;
    assert_eq!(["x", SETTING].map(privileged), [true, true]);
    let unmasked = view(&lab, "unmasked", json!({ "procMount": "Unmasked" }), true).await;
    assert!(unmasked(SETTING));
    // Such a container sees the machine's files.
    let shared = view(&lab, "shared", read_only, false).await;
    assert_eq!(["run/x", SETTING].map(shared), [false, false]);
    let shared = view(&lab, "shared-privileged", json!({ "privileged": true }), false).await;
    assert!(shared(SETTING));
    lab.cluster.stop().await.unwrap();
}
