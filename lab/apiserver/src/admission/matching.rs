// SPDX-License-Identifier: Apache-2.0
//! `matchConstraints` of a policy.

use serde_json::Value;

use super::{Proposal, list, only};
use crate::kinds::Scope;

/// True if constraints match a proposal.
pub(super) fn matches(constraints: &Value, proposal: &Proposal<'_>) -> bool {
    let any = |field: &str| list(&constraints[field]).any(|rule| rule_matches(rule, proposal));
    any("resourceRules") && !any("excludeResourceRules")
}

pub(super) fn rule_matches(rule: &Value, proposal: &Proposal<'_>) -> bool {
    let kind = proposal.key.kind;
    let names = |field: &str, value: &str| list(&rule[field]).any(|one| one == "*" || one == value);
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => kind.scope == Scope::Cluster,
        Some("Namespaced") => kind.scope == Scope::Namespaced,
        _ => true,
    };
    let mut resource_names = list(&rule["resourceNames"]).peekable();
    scope
        && names("operations", proposal.operation.name())
        && names("apiGroups", kind.group)
        && names("apiVersions", kind.version)
        && list(&rule["resources"]).any(|one| {
            one.as_str().is_some_and(|one| resource_matches(one, kind.plural, proposal.subresource))
        })
        && (resource_names.peek().is_none() || resource_names.any(|one| *one == *proposal.key.name))
}

/// `pods`, `pods/status`, `pods/*`, `*/status`, `*` (resources only), `*/*`.
fn resource_matches(pattern: &str, plural: &str, subresource: Option<&str>) -> bool {
    let fits = |pattern: &str, value: &str| pattern == "*" || pattern == value;
    match (pattern.split_once('/'), subresource) {
        (None, None) => fits(pattern, plural),
        (None, Some(_)) => false,
        (Some((resource, "*")), None) => fits(resource, plural),
        (Some(_), None) => false,
        (Some((resource, sub)), Some(asked)) => fits(resource, plural) && fits(sub, asked),
    }
}

/// Rejects unsupported constraints.
pub(super) fn check(constraints: &Value) -> Result<(), String> {
    const PATH: &str = "spec.matchConstraints";
    // A server's default counts as unset.
    let empty = |field: &str| constraints[field].as_object().is_none_or(serde_json::Map::is_empty);
    if !(empty("namespaceSelector") && empty("objectSelector")) {
        return Err(format!("{PATH}: selectors are not served here"));
    }
    only(
        constraints,
        PATH,
        &["excludeResourceRules", "matchPolicy", "namespaceSelector", "objectSelector", "resourceRules"],
    )?;
    if list(&constraints["resourceRules"]).next().is_none() {
        return Err(format!("{PATH}.resourceRules: Required value"));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        check_rules(&constraints[field], &format!("{PATH}.{field}"))?;
    }
    Ok(())
}

/// Rejects malformed rules.
pub(super) fn check_rules(rules: &Value, path: &str) -> Result<(), String> {
    const RULE: [&str; 6] = ["apiGroups", "apiVersions", "operations", "resourceNames", "resources", "scope"];
    for (number, rule) in list(rules).enumerate() {
        let path = format!("{path}[{number}]");
        only(rule, &path, &RULE)?;
        for required in ["apiGroups", "apiVersions", "operations", "resources"] {
            if list(&rule[required]).next().is_none() {
                return Err(format!("{path}.{required}: Required value"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::resource_matches;

    #[test]
    fn a_pattern_is_about_resources_or_subresources_as_it_says() {
        let cases = [
            ("pods", "pods", true),
            ("pods", "pods/status", false),
            ("pods/status", "pods/status", true),
            ("pods/status", "pods", false),
            ("pods/*", "pods", true),
            ("pods/*", "pods/status", true),
            ("*/status", "nodes/status", true),
            ("*/status", "nodes", false),
            ("*", "nodes", true),
            ("*", "nodes/status", false),
            ("*/*", "nodes/status", true),
            ("nodes", "pods", false),
        ];
        for (pattern, resource, expected) in cases {
            let (plural, sub) =
                resource.split_once('/').map_or((resource, None), |(one, two)| (one, Some(two)));
            assert_eq!(resource_matches(pattern, plural, sub), expected, "{pattern} {resource}");
        }
    }
}
