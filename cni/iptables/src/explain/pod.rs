// SPDX-License-Identifier: Apache-2.0
//! The pod in a file as `kubectl get pod -o yaml` or `-o json` writes it: alone, in a list, or among other documents.

use std::net::IpAddr;

use protocol::pod::{NotOnePod, PodFacts, only};
use serde::Deserialize;
use serde_json::Value;

/// Pod with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodFile {
    pub(super) facts: PodFacts,
    /// `status.podIPs`
    pub(super) addresses: Vec<IpAddr>,
}

/// Not exactly one pod in a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodError {
    /// Neither YAML nor JSON.
    #[error("read the pod: {0}")]
    Syntax(String),
    /// Fields of the wrong type.
    #[error("read the pod")]
    Shape(#[source] serde_json::Error),
    #[error("choose a pod in the file: {0}")]
    Choice(#[from] NotOnePod),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Deserialize)]
struct PodIp {
    ip: String,
}

/// Reads the one pod in `text`.
///
/// # Errors
/// See [`PodError`].
pub(super) fn read(text: &str) -> Result<PodFile, PodError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| PodError::Syntax(error.to_string()))?;
    pod_file(&only(documents)?)
}

fn pod_file(pod: &Value) -> Result<PodFile, PodError> {
    let status = match pod.get("status") {
        None | Some(Value::Null) => Status::default(),
        Some(status) => Status::deserialize(status).map_err(PodError::Shape)?,
    };
    let all = status.pod_ips.unwrap_or_default().into_iter().map(|pod_ip| pod_ip.ip);
    let mut addresses: Vec<IpAddr> = all.filter_map(|text| text.parse().ok()).collect();
    if addresses.is_empty() {
        addresses.extend(status.pod_ip.and_then(|text| text.parse::<IpAddr>().ok()));
    }
    Ok(PodFile { facts: PodFacts::deserialize(pod).map_err(PodError::Shape)?, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "kind: Pod\nmetadata: {name: cart, annotations: {a: \"true\"}}\nstatus: {podIPs: [{ip: 10.1.2.3}, {ip: fd00::1}]}\n";

    #[test]
    fn one_pod_is_found_wherever_it_is() {
        let alone = read(POD).unwrap();
        assert_eq!(alone.facts.metadata.name, "cart");
        assert_eq!(alone.facts.metadata.annotations["a"], "true");
        assert_eq!(alone.addresses.len(), 2);
        let among = format!("# comment\n---\nkind: Service\nspec: {{containers: 7}}\n---\n{POD}---\n");
        assert_eq!(read(&among).unwrap(), alone);
        let json = r#"{"kind":"List","items":[{"kind":"Pod","metadata":{"name":"cart"},"status":{"podIP":"10.1.2.3"}}]}"#;
        assert_eq!(read(json).unwrap().addresses.len(), 1);
        assert!(read("kind: Pod\nstatus:\n").unwrap().addresses.is_empty());
    }

    #[test]
    fn anything_else_is_refused() {
        let text = |text: &str| read(text).map_err(|error| error.to_string()).unwrap_err();
        assert_eq!(text("kind: Service"), "choose a pod in the file: it has Service");
        assert_eq!(text(""), "choose a pod in the file: it has nothing");
        assert_eq!(
            text(&format!("{POD}---\n{POD}")),
            "choose a pod in the file: it has cart, cart; give one of them"
        );
        assert!(text("kind: [").starts_with("read the pod: "));
        assert_eq!(text("kind: Pod\nspec: 7"), "read the pod");
    }
}
