// SPDX-License-Identifier: Apache-2.0
//! Rules through the iptables tools, where the kernel or an operator demands it.

/// Why the tools did not do it.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// A tool is not installed.
    #[error(
        "apply rules: {tool} is not in PATH: install the iptables package with its {variant} variant, or choose another back end"
    )]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// `legacy` or `nft`.
        variant: &'static str,
    },
}
