// SPDX-License-Identifier: Apache-2.0
//! The runtime's CNI result cache, as CNI's library writes it: which sandbox has which namespace and addresses. Read only.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use super::find::Named;

/// Size limit of an entry.
const LIMIT: u64 = 1024 * 1024;

/// Entry of the result cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedResult {
    /// Its pod.
    pub named: Named,
    /// Path of the netns on the node; older versions of libcni do not record it.
    pub netns: Option<PathBuf>,
    /// Assigned addresses.
    pub addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    netns: String,
    #[serde(default)]
    cni_args: Option<Vec<(String, String)>>,
    #[serde(default)]
    result: Option<RawResult>,
}

#[derive(Default, Deserialize)]
struct RawResult {
    #[serde(default)]
    ips: Option<Vec<RawIp>>,
    ip4: Option<OldIp>,
    ip6: Option<OldIp>,
}

#[derive(Deserialize)]
struct RawIp {
    #[serde(default)]
    address: String,
}

/// Format of results before version 0.3.0.
#[derive(Deserialize)]
struct OldIp {
    #[serde(default)]
    ip: String,
}

/// Parses an entry; `None` if malformed, or not of a pod.
#[must_use]
pub fn parse(text: &[u8]) -> Option<CachedResult> {
    let raw: Raw = serde_json::from_slice(text).ok()?;
    let mut named = Named::default();
    for (key, value) in raw.cni_args.unwrap_or_default() {
        match key.as_str() {
            "K8S_POD_NAMESPACE" => named.namespace = value,
            "K8S_POD_NAME" => named.name = value,
            "K8S_POD_UID" => named.uid = value,
            _ => {}
        }
    }
    let result = raw.result.unwrap_or_default();
    let texts = result.ips.unwrap_or_default().into_iter().map(|ip| ip.address);
    let old = [result.ip4, result.ip6].into_iter().flatten().map(|ip| ip.ip);
    let addresses = texts.chain(old).filter_map(|text| text.split('/').next()?.parse().ok()).collect();
    let is_of_a_pod = !named.name.is_empty() && !named.namespace.is_empty();
    let netns = Some(PathBuf::from(raw.netns)).filter(|path| !path.as_os_str().is_empty());
    is_of_a_pod.then_some(CachedResult { named, netns, addresses })
}

/// All entries below `dir` (as `/var/lib/cni`), the newest first. What cannot be read is not there: an entry that vanishes is a pod that
/// went, and the cache is one witness of several.
#[must_use]
pub fn read(dir: &Path) -> Vec<CachedResult> {
    let files = std::fs::read_dir(dir.join("results")).into_iter().flatten().flatten();
    let mut entries: Vec<(SystemTime, CachedResult)> = files
        .filter_map(|file| {
            let about = file.metadata().ok().filter(|about| about.is_file() && about.len() <= LIMIT)?;
            let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((written, parse(&std::fs::read(file.path()).ok()?)?))
        })
        .collect();
    entries.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(value: &serde_json::Value) -> Option<CachedResult> {
        parse(value.to_string().as_bytes())
    }

    #[test]
    fn an_entry_names_pod_namespace_and_addresses() {
        let args = json!([
            ["IgnoreUnknown", "1"],
            ["K8S_POD_NAMESPACE", "shop"],
            ["K8S_POD_NAME", "cart"],
            ["K8S_POD_UID", "u-1"]
        ]);
        let entry = parsed(&json!({
            "kind": "cniCacheV1", "containerId": "c", "config": "e30=", "ifName": "eth0", "networkName": "n",
            "netns": "/var/run/netns/cni-1", "cniArgs": args, "capabilityArgs": null,
            "result": {"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.2/24"}, {"address": "fd00::2/64"}]},
        }));
        let named = Named { namespace: "shop".into(), name: "cart".into(), uid: "u-1".into() };
        let addresses = ["10.9.0.2", "fd00::2"].map(|text| text.parse().unwrap()).to_vec();
        let netns = Some(PathBuf::from("/var/run/netns/cni-1"));
        assert_eq!(entry, Some(CachedResult { named: named.clone(), netns, addresses }));

        let older = parsed(&json!({"cniArgs": args, "result": {"ip4": {"ip": "10.9.0.2/24"}}})).unwrap();
        assert_eq!(
            (older.named, older.netns, older.addresses),
            (named, None, vec!["10.9.0.2".parse().unwrap()])
        );
    }

    #[test]
    fn what_names_no_pod_is_no_entry() {
        for other in [
            json!({}),
            json!([]),
            json!({"netns": "/x", "cniArgs": null}),
            json!({"cniArgs": [["K8S_POD_NAME", "x"]]}),
        ] {
            assert_eq!(parsed(&other), None, "{other}");
        }
        assert_eq!(parse(b"{\"cniArgs\":"), None);
    }
}
