// SPDX-License-Identifier: Apache-2.0
//! Finds the tool that writes rules of a variant. What it can do is told by its version; whether the kernel can do the same is found by
//! doing: to try it here would leave empty tables behind.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use redirect::ruleset::Family;

use super::run::{self, Output};
use super::{IptablesError, Problem, Variant};

/// Where the tools are if `PATH` is not set, or lacks them as a runtime's does.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A version, compared part by part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(Vec<u32>);

impl Version {
    pub(super) const WAITS: [u32; 3] = [1, 6, 2];
    pub(super) const NAMES_LOCK: [u32; 3] = [1, 8, 6];

    pub(super) fn is_at_least(&self, other: [u32; 3]) -> bool {
        self.0.as_slice() >= other.as_slice()
    }
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    /// Its file.
    pub(super) path: PathBuf,
    /// Its variant.
    pub(super) variant: Variant,
    /// Its version.
    pub(super) version: Version,
}

impl Tool {
    /// Its file name.
    pub(super) fn name(&self) -> String {
        name(&self.path)
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The tools' `PATH`.
pub(super) fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push(USUAL);
    path
}

/// The tool that restores rules of a family through a variant: the one that has the variant in its name, else the plain one if it is
/// of that variant. One that does not tell its version is passed over; if none is left, its failure is the error.
pub(super) fn find(variant: Variant, family: Family, deadline: Instant) -> Result<Tool, IptablesError> {
    let (named, plain) = match (variant, family) {
        (Variant::Legacy, Family::V4) => ("iptables-legacy-restore", "iptables-restore"),
        (Variant::Legacy, Family::V6) => ("ip6tables-legacy-restore", "ip6tables-restore"),
        (Variant::Nft, Family::V4) => ("iptables-nft-restore", "iptables-restore"),
        (Variant::Nft, Family::V6) => ("ip6tables-nft-restore", "ip6tables-restore"),
    };
    let path = path();
    let files = [named, plain].into_iter().flat_map(|name| {
        std::env::split_paths(&path).map(move |directory| directory.join(name)).find(|file| file.is_file())
    });
    let (begun, mut failed) = (Instant::now(), None);
    for path in files {
        let mut command = Command::new(&path);
        command.arg("--version");
        let said = run::output(command, "", deadline);
        let tool = name(&path);
        let error = match said {
            Ok(said) => match identify(&said) {
                Some((found, version)) if found == variant => return Ok(Tool { path, variant, version }),
                Some(_) => continue,
                None => IptablesError::Failed {
                    tool,
                    problem: Problem::of(said.status),
                    message: said.errors.trim().to_owned(),
                },
            },
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                IptablesError::Timeout { tool, limit: begun.elapsed() }
            }
            Err(reason) => IptablesError::Start { tool, reason },
        };
        failed.get_or_insert(error);
    }
    Err(failed.unwrap_or(IptablesError::NoTool { tool: named, variant }))
}

/// Parses a reply to `--version`. A tool that does not know the option is old, and so legacy; `None` if it fails in another way.
fn identify(said: &Output) -> Option<(Variant, Version)> {
    let oldest = (Variant::Legacy, Version(vec![0, 0, 0]));
    if said.errors.contains("unrecognized option") {
        return Some(oldest);
    }
    if said.status != Some(0) {
        return None;
    }
    let variant = if said.text.contains("nf_tables") { Variant::Nft } else { Variant::Legacy };
    let numbers = said.text.split_once(" v").map_or("", |(_, rest)| rest);
    let numbers = numbers.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    Some(match numbers.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>() {
        Ok(parts) => (variant, Version(parts)),
        Err(_) => oldest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_what_it_says() {
        let said = |text: &str| Output { status: Some(0), text: text.to_owned(), errors: String::new() };
        let cases = [
            ("iptables-restore v1.8.9 (legacy)\n", Variant::Legacy, vec![1, 8, 9]),
            ("iptables-nft-restore v1.8.9 (nf_tables)\n", Variant::Nft, vec![1, 8, 9]),
            ("iptables-restore v1.6.1\n", Variant::Legacy, vec![1, 6, 1]),
            ("iptables-restore v1.8.10 (legacy)", Variant::Legacy, vec![1, 8, 10]),
            ("who knows", Variant::Legacy, vec![0, 0, 0]),
        ];
        for (text, variant, version) in cases {
            assert_eq!(identify(&said(text)), Some((variant, Version(version))), "{text}");
        }
        let failed = |errors: &str| Output { status: Some(2), errors: errors.to_owned(), ..said("v9.9.9") };
        let old = failed("iptables-restore: unrecognized option '--version'");
        assert_eq!(identify(&old), Some((Variant::Legacy, Version(vec![0, 0, 0]))));
        assert_eq!(identify(&failed("error while loading shared libraries: libxtables.so.12")), None);
        assert_eq!(identify(&Output { status: None, ..said("") }), None, "a signal ended it");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let at_least = |parts: &[u32]| Version(parts.to_vec()).is_at_least(Version::NAMES_LOCK);
        assert!(at_least(&[1, 8, 6]) && at_least(&[1, 8, 10]) && at_least(&[1, 9]) && at_least(&[2, 0]));
        assert!(!at_least(&[1, 8, 5]) && !at_least(&[1, 8]) && !at_least(&[0, 0, 0]));
    }
}
