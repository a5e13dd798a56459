// SPDX-License-Identifier: Apache-2.0
//! Configurations whose packets have recorded fates, or get them.

use redirect::generate::ruleset;

use crate::data::{self, Case};
use crate::derive;
use crate::exchange::{self, MORE_PATIENCE, PATIENCE, Proxy};
use crate::expect;
use crate::fates::{Fate, fate, is_answered};
use crate::forget;
use crate::packet::Spec;
use crate::random::Random;
use crate::writer::Refusal;

use super::{Judge, Lane};

impl Lane<'_> {
    /// Sends recorded packets and compares their fates, or records those of the packets that follow from the configuration.
    pub(super) fn fated(&mut self, case: &Case) -> anyhow::Result<()> {
        let recorded = match &self.plan.judge {
            Judge::Evaluator => return Ok(()),
            Judge::Recorded(fates) => match fates.configurations.get(&case.name) {
                Some(recorded) => Some(recorded.clone()),
                None => return Ok(()),
            },
            Judge::Nobody => None,
        };
        let backend = self.plan.backend;
        forget::every_rule()?;
        forget::connections()?;
        let config = data::numbered(&case.config);
        self.findings.pods += 1;
        if let Err(Refusal(why)) = self.plan.writer.program(&case.name, &config, backend)? {
            self.findings.astray.push(format!("{}: {why}", case.name));
            return Ok(());
        }
        let proxy = Proxy::listen(&config)?;
        match recorded {
            Some(recorded) => self.compared(case, &proxy, &config, &recorded)?,
            None => self.recorded(case, &proxy, &config)?,
        }
        if let Some(routes) = netfilter::ground::policy_routes(&config) {
            self.rtnetlink.remove_policy_routes(routes)?;
        }
        Ok(())
    }

    fn compared(
        &mut self,
        case: &Case,
        proxy: &Proxy,
        config: &redirect::Config,
        recorded: &[Fate],
    ) -> anyhow::Result<()> {
        let pod = expect::pod(config);
        for Fate { fate: wanted, packet } in recorded {
            let port = packet.source_port.unwrap_or_else(|| self.next_port(&pod, packet));
            let patience = if self.findings.astray.is_empty() { MORE_PATIENCE } else { PATIENCE };
            let patience = is_answered(wanted).then_some(patience);
            let found = fate(&self.sent(proxy, packet, port, patience)?);
            self.findings.packets += 1;
            if found != *wanted {
                let text = format!("{}: {packet}\n    recorded: {wanted}\n    kernel:   {found}", case.name);
                self.findings.astray.push(text);
            }
        }
        Ok(())
    }

    fn recorded(&mut self, case: &Case, proxy: &Proxy, config: &redirect::Config) -> anyhow::Result<()> {
        let pod = expect::pod(config);
        let rules = ruleset(config)?;
        let mut random = Random::new(self.plan.seed, &case.name);
        let mut fates = Vec::new();
        for packet in derive::packets(config, &rules, self.plan.packets, &mut random) {
            let port = packet.source_port.unwrap_or_else(|| self.next_port(&pod, &packet));
            let fate = fate(&self.sent(proxy, &packet, port, Some(PATIENCE))?);
            fates.push(Fate { fate, packet });
        }
        self.findings.packets += fates.len();
        self.findings.fates.insert(case.name.clone(), fates);
        Ok(())
    }

    fn sent(
        &mut self,
        proxy: &Proxy,
        packet: &Spec,
        port: u16,
        patience: Option<std::time::Duration>,
    ) -> anyhow::Result<exchange::Seen> {
        // Others have a port that conntrack has not met.
        if packet.source_port.is_some() {
            forget::connections()?;
        }
        exchange::send(&self.net, proxy, packet, port, patience)
    }
}
