// SPDX-License-Identifier: Apache-2.0
//! A runtime's call of a plugin, as its cache of results tells it (libcni's `cniCacheV1`, in `/var/lib/cni/results`). Pure.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::CniCall;
use serde_json::{Map, Value};

/// The ADD of a plugin of the list, if the entry is of a pod of that name. What the plugin before it answered is not kept: it gets the list's result,
/// which is the same where it is the last one.
pub(crate) fn add(entry: &[u8], pod: &str, plugin: &str, bin_dir: &Path) -> Option<CniCall> {
    let entry: Value = serde_json::from_slice(entry).ok()?;
    let arguments = entry["cniArgs"].as_array()?.iter();
    let arguments: BTreeMap<_, _> =
        arguments.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?))).collect();
    if arguments.get("K8S_POD_NAME") != Some(&pod) {
        return None;
    }
    let list: Value = serde_json::from_slice(&STANDARD.decode(entry["config"].as_str()?).ok()?).ok()?;
    let own = list["plugins"].as_array()?.iter().find(|one| one["type"] == plugin)?.as_object()?.clone();
    let of_list =
        [("cniVersion", &list["cniVersion"]), ("name", &list["name"]), ("prevResult", &entry["result"])];
    let of_list = of_list.map(|(key, value)| (key.to_owned(), value.clone()));
    let conf: Map<_, _> = own.into_iter().chain(of_list).collect();
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let pairs: Vec<_> = arguments.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let env = [
        ("CNI_COMMAND", "ADD".to_owned()),
        ("CNI_CONTAINERID", text("containerId")),
        ("CNI_NETNS", text("netns")),
        ("CNI_IFNAME", text("ifName")),
        ("CNI_ARGS", pairs.join(";")),
        ("CNI_PATH", bin_dir.display().to_string()),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value)).into();
    Some(CniCall { plugin: plugin.to_owned(), env, stdin: Value::Object(conf).to_string().into_bytes() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_made_of_what_the_runtime_keeps() {
        let list = json!({
            "cniVersion": "1.0.0", "name": "lab",
            "plugins": [{ "type": "bridge" }, { "type": "istio-cni", "exclude_namespaces": ["kube-system"] }],
        });
        let result = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "10.0.0.2/24" }] });
        let entry = json!({
            "kind": "cniCacheV1", "containerId": "c1", "config": STANDARD.encode(list.to_string()), "ifName": "eth0",
            "networkName": "lab", "netns": "/var/run/netns/n1", "result": result,
            "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", "cart"]],
        });
        let bin_dir = Path::new("/opt/cni/bin");
        let of = |pod: &str, plugin: &str| add(entry.to_string().as_bytes(), pod, plugin, bin_dir);
        let call = of("cart", "istio-cni").unwrap();
        let conf: Value = serde_json::from_slice(&call.stdin).unwrap();
        assert_eq!(
            (&conf["name"], &conf["cniVersion"], &conf["prevResult"]),
            (&json!("lab"), &json!("1.0.0"), &result)
        );
        assert_eq!(conf["exclude_namespaces"], json!(["kube-system"]));
        assert_eq!(call.env["CNI_ARGS"], "IgnoreUnknown=1;K8S_POD_NAME=cart;K8S_POD_NAMESPACE=shop");
        assert_eq!((&*call.env["CNI_NETNS"], &*call.env["CNI_PATH"]), ("/var/run/netns/n1", "/opt/cni/bin"));
        assert_eq!((of("till", "istio-cni"), of("cart", "calico")), (None, None));
    }
}
