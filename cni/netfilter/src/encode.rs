// SPDX-License-Identifier: Apache-2.0
//! Rules to nf_tables messages; pure.

use redirect::ruleset::Ruleset;

/// Why a ruleset cannot be written for nft-compat. Each names the rule and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A port that is not a number.
    #[error("rule {rule:?}: port {port:?} is not a number or range")]
    Port {
        /// The rule.
        rule: String,
        /// The token.
        port: String,
    },
}

/// The whole transaction for a namespace that holds none of our rules; with `generation` it commits only at that generation.
///
/// # Errors
/// If a rule cannot be encoded.
pub fn batch(ruleset: &Ruleset, generation: Option<u32>) -> Result<Vec<u8>, EncodeError> {
    let _ = (ruleset, generation);
    todo!()
}
