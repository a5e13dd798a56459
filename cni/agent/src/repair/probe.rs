// SPDX-License-Identifier: Apache-2.0
//! The proof that a pod's traffic is redirected, from inside its namespace: one packet is sent without any right, as a user that is not the
//! proxy's, and the rule that redirects it must have counted it.
//!
//! No port is bound, as the proxy may start at any moment. What the wanted rules do with a packet says the evaluator of rules
//! ([`redirect::verdict`]); a packet is chosen that they redirect. Inbound packets cannot be made from inside: for those the rules that
//! were read back stand.

use std::net::SocketAddr;

use netfilter::address::Address;
use netfilter::{LookError, look};
use redirect::config::{Config, ConfigError};
use redirect::found::FoundRules;
use redirect::found::compare::{Form, forms};
use redirect::generate::ruleset;
use redirect::host::is_ordinary;
use redirect::packet::{Outcome, Packet};
use redirect::ruleset::{Family, Ruleset};
use redirect::verdict::{FoundStep, found_verdict, verdict};
use rustix::io::Errno;

use super::ask::{Evidence, Proven};
use super::packets::{Sent, candidates};

/// Redirection is not verified.
#[derive(Debug, thiserror::Error)]
pub enum Unproven {
    /// The rules cannot be read.
    #[error("rules cannot be read")]
    Look(#[from] LookError),
    /// The configuration yields no rules.
    #[error("no rules can be made")]
    Config(#[from] ConfigError),
    /// The rules do something else with the packet.
    #[error("a packet to {to} would not be redirected to port {port} by the rules that are there")]
    Otherwise {
        /// Its destination by the rules.
        to: SocketAddr,
        /// Its port by the desired rules.
        port: u16,
    },
    /// The rule did not count the packet.
    #[error("a packet to {to} did not meet the rule that should redirect it to port {port}")]
    Uncounted {
        /// Destination.
        to: SocketAddr,
        /// Port by the desired rules.
        port: u16,
    },
    /// No probe could be sent.
    #[error("no packet could be sent")]
    Send(#[source] std::io::Error),
}

/// Proves each family that the pod has an address of, and rules for.
///
/// # Errors
/// One of them is not redirected.
pub fn prove(config: &Config, addresses: &[Address]) -> Result<Vec<Proven>, Unproven> {
    let form = forms(&look()?).first().copied().unwrap_or(Form::Iptables);
    let wanted = ruleset(&config.clone().in_dialect(form.dialect()))?;
    let mut proven = Vec::new();
    for (family, name) in [(Family::V4, "IPv4"), (Family::V6, "IPv6")] {
        let is_of = |address: &&Address| Family::of(address.ip) == family;
        let own: Vec<&Address> =
            addresses.iter().filter(is_of).filter(|address| is_ordinary(address.ip)).collect();
        if own.is_empty() || (family == Family::V6 && !config.ipv6) {
            continue;
        }
        let evidence = one(config, &wanted, family, &own)?;
        proven.push(Proven { family: name.to_owned(), evidence });
    }
    Ok(proven)
}

fn one(config: &Config, wanted: &Ruleset, family: Family, own: &[&Address]) -> Result<Evidence, Unproven> {
    let mut unsent = None;
    for packet in candidates(config, family, own) {
        let Outcome::Redirected { port } = verdict(wanted, &packet.packet).outcome else { continue };
        match send(&packet, port) {
            Ok(()) => return Ok(Evidence::Packet { to: packet.to.to_string(), port }),
            Err(Unproven::Send(error)) => unsent = Some(error),
            Err(unproven) => return Err(unproven),
        }
    }
    let why = unsent.map_or_else(
        || "no outbound traffic of this family is to be redirected".to_owned(),
        |error| format!("no packet that is to be redirected could be sent: {error}"),
    );
    Ok(Evidence::Rules { why })
}

/// Sends one packet and checks that the rule's counter rises.
fn send(packet: &Sent, port: u16) -> Result<(), Unproven> {
    let found = look()?;
    let rule =
        redirecting(&found, &packet.packet, port).ok_or(Unproven::Otherwise { to: packet.to, port })?;
    let before = count(&found, &rule);
    match packet.send() {
        // Refused: nobody listens on the proxy's port yet.
        Ok(()) | Err(Errno::INPROGRESS | Errno::CONNREFUSED) => {}
        Err(errno) => return Err(Unproven::Send(errno.into())),
    }
    match (before, count(&look()?, &rule)) {
        (Some(before), Some(after)) if after > before => Ok(()),
        _ => Err(Unproven::Uncounted { to: packet.to, port }),
    }
}

/// The rule that redirects the packet to `port`, among those that are there.
fn redirecting(found: &FoundRules, packet: &Packet, port: u16) -> Option<FoundStep> {
    let mut judged = found_verdict(found, packet);
    (judged.outcome == Ok(Outcome::Redirected { port })).then(|| judged.steps.pop())?
}

/// Packet counter of a rule.
fn count(found: &FoundRules, rule: &FoundStep) -> Option<u64> {
    let table =
        found.tables.iter().find(|table| (table.family, &table.name) == (rule.family, &rule.table))?;
    let chain = table.chains.iter().find(|chain| chain.name == rule.chain)?;
    chain.rules.get(rule.position.checked_sub(1)?)?.packets
}
