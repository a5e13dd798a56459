// SPDX-License-Identifier: Apache-2.0
//! Where values stand in a document, for telling their names as they were given.

/// Prefix of a value's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyPrefix(pub &'static str);

/// Values of an `IstioOperator`.
pub(crate) const OPERATOR: KeyPrefix = KeyPrefix("spec.values.cni.");

/// Top-level keys of ours that are never below `cni`.
pub(crate) const OUTSIDE: [&str; 7] =
    ["global", "istio_cni", "ownerName", "pilot", "platform", "revision", "sidecarInjectorWebhook"];

impl KeyPrefix {
    /// Name of a value as given.
    #[must_use]
    pub fn name(self, path: &str) -> String {
        let first = path.split('.').next().unwrap_or_default();
        match self.0.strip_suffix("cni.") {
            Some(outer) if OUTSIDE.contains(&first) => format!("{outer}{path}"),
            _ => format!("{}{path}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_global_stands_beside_the_component() {
        assert_eq!(KeyPrefix("spec.values.cni.").name("global.tag"), "spec.values.global.tag");
        assert_eq!(KeyPrefix("spec.values.cni.").name("repair.enabled"), "spec.values.cni.repair.enabled");
        assert_eq!(KeyPrefix("values.").name("global.tag"), "values.global.tag");
        assert_eq!(KeyPrefix("").name("chained"), "chained");
    }
}
