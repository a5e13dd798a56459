// SPDX-License-Identifier: Apache-2.0
//! Names of the binaries under test.

/// File name of the plugin.
pub const PLUGIN: &str = "istio-cni";

/// File name of `istio-iptables`.
pub const TOOL: &str = "istio-iptables";

/// File name of the node agent.
pub const AGENT: &str = "install-cni";

/// Binaries that a system under test may lack. A tag of that name says that a scenario needs one.
pub const OPTIONAL: [&str; 2] = [TOOL, AGENT];

/// The variable that names the defect that a process plays. Only binaries that are built with defects read it (`lab/mutants/protocol.rs`).
pub const MUTANT: &str = "MILLRACE_MUTANT";
