// SPDX-License-Identifier: Apache-2.0
//! Kubeconfigs with a certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Identity;
use serde_json::json;

/// Of a client of the API server at `server`, which this authority (PEM) vouches for; JSON, which is YAML.
pub(crate) fn kubeconfig(authority: &str, server: &str, identity: &Identity) -> String {
    let encoded = |text: &str| STANDARD.encode(text);
    let cluster = json!({ "server": server, "certificate-authority-data": encoded(authority) });
    let user = json!({
        "client-certificate-data": encoded(&identity.certificate),
        "client-key-data": encoded(&identity.key),
    });
    let context = json!({ "cluster": "cnilab", "user": "cnilab" });
    let all = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "cnilab", "cluster": cluster }],
        "users": [{ "name": "cnilab", "user": user }],
        "contexts": [{ "name": "cnilab", "context": context }],
        "current-context": "cnilab",
    });
    format!("{all:#}\n")
}
