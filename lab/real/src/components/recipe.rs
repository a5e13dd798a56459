// SPDX-License-Identifier: Apache-2.0
//! The recipe of a component.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An entry of `ci/components/components.yaml`, which says what its fields mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub name: String,
    pub version: String,
    pub binaries: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    #[serde(default)]
    pub cgo: bool,
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
}

impl Recipe {
    /// Arguments of `go` that build `package` into `output`; `-v` names each package that is compiled. Without debug information, which is
    /// most of what a linker writes.
    #[must_use]
    pub fn arguments(&self, package: &str, output: &str) -> Vec<String> {
        let set = self.variables.iter().map(|(name, value)| format!(" -X {name}={value}"));
        let link = format!("-ldflags=-s -w{}", set.collect::<String>());
        let mut arguments: Vec<_> =
            ["build", "-v", "-trimpath", "-gcflags=all=-dwarf=false"].map(str::to_owned).into();
        arguments.extend([
            link,
            format!("-tags={}", self.tags.join(",")),
            "-o".into(),
            output.into(),
            package.into(),
        ]);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linker_sets_all_variables() {
        let variables = [("a.version", "v1"), ("b.clean", "true")];
        let recipe = Recipe {
            name: "one".to_owned(),
            version: "1".to_owned(),
            binaries: BTreeMap::new(),
            tags: vec!["x".to_owned(), "y".to_owned()],
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            cgo: false,
            needs: Vec::new(),
            libraries: Vec::new(),
        };
        let arguments = recipe.arguments("example.org/one", "/out/one");
        assert!(arguments.contains(&"-ldflags=-s -w -X a.version=v1 -X b.clean=true".to_owned()));
        assert!(arguments.contains(&"-tags=x,y".to_owned()));
        assert_eq!(arguments.last().unwrap(), "example.org/one");
    }
}
