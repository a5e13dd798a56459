// SPDX-License-Identifier: Apache-2.0
//! The recipe of a component.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An entry of `ci/components/components.yaml`, which says what its fields mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub name: String,
    pub version: String,
    pub binaries: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub c: BTreeMap<String, Sources>,
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

/// C files of a Go module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    pub module: String,
    /// Their directory in it.
    pub directory: String,
}

impl Recipe {
    /// Names of all binaries.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.binaries.keys().chain(self.c.keys())
    }

    /// Arguments of a C compiler that makes `output` of these files.
    #[must_use]
    pub fn compiled(&self, files: &[PathBuf], output: &Path) -> Vec<OsString> {
        let version = format!("-DVERSION=\"{}\"", self.version);
        let mut arguments: Vec<OsString> = ["-O2", "-std=gnu99", &version, "-o"].map(OsString::from).into();
        arguments.push(output.into());
        arguments.extend(files.iter().map(OsString::from));
        arguments
    }

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
            c: BTreeMap::new(),
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
