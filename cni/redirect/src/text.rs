// SPDX-License-Identifier: Apache-2.0
//! Rules as text, spelled as upstream spells them. It is what a dry run writes and what people read.

mod native;
mod restore;

use crate::ruleset::{Dialect, Match, Rule, Target};

pub use native::native;
pub use restore::restore;

/// One rule as the command that adds it (`-A ISTIO_OUTPUT …`, `insert rule inet istio-proxy-nat prerouting index 0 …`).
#[must_use]
pub fn command(dialect: Dialect, rule: &Rule) -> String {
    match dialect {
        Dialect::Iptables => restore::Command(rule).to_string(),
        Dialect::Nft => native::Command(rule).to_string(),
    }
}

/// One rule without the chain that it is in: its conditions and what happens then.
#[must_use]
pub fn rule(dialect: Dialect, rule: &Rule) -> String {
    match dialect {
        Dialect::Iptables => restore::Body(rule).to_string(),
        Dialect::Nft => native::Body(rule).to_string(),
    }
}

/// One condition of an iptables rule.
#[must_use]
pub fn condition(condition: &Match) -> String {
    restore::MatchText(condition).to_string().trim_end().to_owned()
}

/// Target of an iptables rule with these conditions.
#[must_use]
pub fn target(target: &Target, conditions: &[Match]) -> String {
    restore::TargetText(target, conditions).to_string()
}
