// SPDX-License-Identifier: Apache-2.0
//! Kubeconfigs with a token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The file that upstream's installer writes for its plugin: the same names, keys in the same (alphabetical) order. The authority's certificate is PEM.
#[must_use]
pub fn of(ca_pem: &str, server_url: &str, token: &str) -> String {
    let names = Names { cluster: "local", user: "istio-cni", context: "istio-cni-context" };
    named(ca_pem, server_url, token, &names)
}

/// The same under other names.
pub(crate) fn named(ca_pem: &str, server_url: &str, token: &str, names: &Names) -> String {
    let ca = STANDARD.encode(ca_pem);
    let (server, token) = (scalar(server_url), scalar(token));
    let Names { cluster, user, context } = names;
    format!(
        "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: {server}
  name: {cluster}
contexts:
- context:
    cluster: {cluster}
    user: {user}
  name: {context}
current-context: {context}
kind: Config
preferences: {{}}
users:
- name: {user}
  user:
    token: {token}
"
    )
}

/// Names in a kubeconfig.
pub(crate) struct Names {
    pub(crate) cluster: &'static str,
    pub(crate) user: &'static str,
    pub(crate) context: &'static str,
}

/// A YAML scalar: plain where that is safe, else double-quoted (a JSON string is one).
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/[]:".contains(c))
        && !text.ends_with(':');
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
