// SPDX-License-Identifier: Apache-2.0
//! Networks that a pod's annotation names: a list of `[NAMESPACE/]NAME[@INTERFACE]`, or JSON.

use serde::Deserialize;

/// Annotation of pods.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// A network that a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Selection {
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    /// Wanted name of the interface.
    #[serde(default)]
    pub interface: String,
}

/// Reads the annotation of a pod in this namespace.
///
/// # Errors
/// It is malformed.
pub fn parse(annotation: &str, namespace: &str) -> Result<Vec<Selection>, String> {
    let mut all: Vec<Selection> = if annotation.contains(['[', '{', '"']) {
        serde_json::from_str(annotation).map_err(|error| {
            format!("parsePodNetworkAnnotation: failed to parse pod Network Attachment Selection Annotation JSON format: {error}")
        })?
    } else {
        let items = annotation.split(',').map(item).collect::<Result<_, _>>();
        items.map_err(|error| format!("parsePodNetworkAnnotation: parsePodNetworkObjectName: {error}"))?
    };
    for selection in all.iter_mut().filter(|selection| selection.namespace.is_empty()) {
        namespace.clone_into(&mut selection.namespace);
    }
    Ok(all)
}

fn item(text: &str) -> Result<Selection, String> {
    let (namespace, rest) = match text.trim().split('/').collect::<Vec<_>>()[..] {
        [rest] => ("", rest),
        [namespace, rest] => (namespace.trim(), rest),
        _ => return Err("Invalid network object (failed at '/')".to_owned()),
    };
    let (name, interface) = match rest.split('@').collect::<Vec<_>>()[..] {
        [name] => (name.trim(), ""),
        [name, interface] => (name.trim(), interface.trim()),
        _ => return Err("Invalid network object (failed at '@')".to_owned()),
    };
    match [namespace, name].into_iter().find(|part| !is_label(part)) {
        Some(part) => Err(format!(
            "Failed to parse: one or more items did not match comma-delimited format (must consist of lower case alphanumeric characters). Must start and end with an alphanumeric character), mismatch @ '{part}'"
        )),
        None => Ok(Selection {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            interface: interface.to_owned(),
        }),
    }
}

/// True for a DNS label, and for nothing at all.
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.into_iter().flatten().all(is_inner) && text.bytes().all(|byte| is_inner(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(annotation: &str) -> Result<Vec<String>, String> {
        let all = parse(annotation, "shop")?;
        Ok(all.into_iter().map(|one| format!("{}/{}@{}", one.namespace, one.name, one.interface)).collect())
    }

    #[test]
    fn networks_are_named_in_both_forms() {
        assert_eq!(
            named("default/istio-cni, storage@net7").unwrap(),
            ["default/istio-cni@", "shop/storage@net7"]
        );
        assert_eq!(
            named(r#"[{"name": "istio-cni", "namespace": "default"}]"#).unwrap(),
            ["default/istio-cni@"]
        );
        assert_eq!(named(r#"[{"name": "storage", "interface": "net7"}]"#).unwrap(), ["shop/storage@net7"]);
    }

    #[test]
    fn a_malformed_annotation_is_named_as_multus_does() {
        assert!(named("a/b/c").unwrap_err().contains("failed at '/'"));
        assert!(named("a@b@c").unwrap_err().contains("failed at '@'"));
        assert!(named("Istio_CNI").unwrap_err().contains("mismatch @ 'Istio_CNI'"));
        assert!(named("[{").unwrap_err().contains("JSON format"));
    }
}
