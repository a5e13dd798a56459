// SPDX-License-Identifier: Apache-2.0
//! Rules that somebody captured in the pod: how they differ from the plan, and what they do with the packets.

use std::net::IpAddr;

use redirect::found::FoundRules;
use redirect::found::capture::{self, CaptureError};
use redirect::found::compare::{Difference, differences_from};
use redirect::overtaken::overtaken;
use redirect::verdict::{FoundVerdict, found_verdict};
use redirect::{Config, config::ConfigError};

use super::Query;

/// Captured rules.
pub(super) struct Captured {
    rules: FoundRules,
    pub(super) differences: Vec<Difference>,
}

impl Captured {
    /// Parses captures of one pod: one of each family, say.
    pub(super) fn read<'a>(texts: impl Iterator<Item = &'a str>) -> Result<FoundRules, CaptureError> {
        let mut rules = FoundRules::default();
        for text in texts {
            rules.tables.extend(capture::read(text)?.tables);
        }
        Ok(rules)
    }

    /// Compares rules with what `config` asks for, in the form in which they are.
    pub(super) fn compare(
        rules: FoundRules,
        config: &Config,
        addresses: &[IpAddr],
    ) -> Result<Self, ConfigError> {
        let mut differences = differences_from(&rules, config)?;
        differences.extend(overtaken(&rules, config, addresses)?);
        Ok(Self { differences, rules })
    }

    /// Verdict on a packet.
    pub(super) fn judge(&self, asked: &Query) -> FoundVerdict {
        found_verdict(&self.rules, &asked.packet)
    }
}
