// SPDX-License-Identifier: Apache-2.0
//! What the outer process hands to the first process of the sandbox: everything that was decided outside.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cli::RunArgs;
use crate::mutants::Mutants;

/// Whether there is a sandbox, and of which kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// Root: pid, mount and network namespaces.
    Root,
    /// The same below a user namespace.
    UserNamespace {
        /// `/proc/self/uid_map`, and where it comes from.
        mapping: String,
    },
    /// Namespaces were refused; nothing that needs a kernel can run.
    Denied {
        /// What was tried and what came of it.
        reason: String,
    },
}

/// A binary under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// Its file name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it says of itself.
    pub version: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it needs no interpreter.
    pub is_static: bool,
}

/// The system under test: a directory, and what was found there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sut {
    /// The directory.
    pub dir: PathBuf,
    /// Its binaries: the plugin, then others.
    pub binaries: Vec<Binary>,
}

impl Sut {
    /// Whether it has a binary of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.binaries.iter().any(|binary| binary.name == name)
    }
}

/// What the first process of the sandbox is to do, and where it finds itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    /// What to do.
    pub task: Task,
    /// Where.
    pub place: Place,
}

/// What to do in a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Run scenarios.
    Run(Box<Plan>),
    /// Say what the environment can do.
    Doctor {
        /// Whether what is optional counts as well.
        strict: bool,
        /// Why production binaries that are built here are not of musl, if they are not.
        without_musl: Option<String>,
    },
}

/// The sandbox, as the outer process made it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// How it was made, or why there is none.
    pub privilege: Privilege,
    /// Its first process, as the outer world numbers it.
    pub outer_pid: u32,
}

impl Place {
    /// Whether there are namespaces at all.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        !matches!(self.privilege, Privilege::Denied { .. })
    }
}

/// A run, decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The command line.
    pub args: RunArgs,
    /// The workspace.
    pub root: PathBuf,
    /// Where reports go, absolute.
    pub report_dir: PathBuf,
    /// The system under test.
    pub sut: Sut,
    /// Why production binaries that were built for this run are not of musl, if they are not.
    pub without_musl: Option<String>,
    /// Which defects it is to play, and what is known of them.
    pub mutants: Option<Mutants>,
    /// The processes of the lab's pods.
    pub workload: PathBuf,
    /// The seed.
    pub seed: u32,
    /// Scenarios at a time.
    pub jobs: usize,
}

impl Plan {
    /// The seed as the command line takes it.
    #[must_use]
    pub fn seed_text(&self) -> String {
        format!("{:04x}", self.seed)
    }
}
