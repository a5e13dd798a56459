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
use redirect::found::compare::{Form, forms};
use redirect::found::{Action, FoundRules};
use redirect::generate::ruleset;
use redirect::host::is_ordinary;
use redirect::packet::{Outcome, Packet};
use redirect::ruleset::{Family, Ruleset};
use redirect::verdict::{found_verdict, verdict};
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
    /// The rules do something else with the packet. A verdict that cannot be decided is not this.
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
    let mut why = None;
    let mut undecided = 0;
    for packet in candidates(config, family, own) {
        let Outcome::Redirected { port } = verdict(wanted, &packet.packet).outcome else { continue };
        match send(&packet, port)? {
            Sending::Counted => return Ok(Evidence::Packet { to: packet.to.to_string(), port }),
            Sending::Unsent(errno) => {
                why = Some(format!("no packet that is to be redirected could be sent: {errno}"));
            }
            Sending::Undecided(cause) => {
                why = Some(format!(
                    "a packet to {} was not counted by a rule that redirects it, and another rule decides: {cause}",
                    packet.to
                ));
                undecided += 1;
            }
        }
        if undecided == UNDECIDED_LIMIT {
            break;
        }
    }
    let why = why.unwrap_or_else(|| "no outbound traffic of this family is to be redirected".to_owned());
    Ok(Evidence::Rules { why })
}

/// Packets that are sent although their verdict cannot be decided, if none of them is counted.
const UNDECIDED_LIMIT: u32 = 8;

/// Result of sending a packet.
#[derive(Debug)]
enum Sending {
    /// A rule that redirects it counted it.
    Counted,
    /// The rules redirect it or do something else: no rule that redirects it counted it, and a rule on its way cannot be judged.
    Undecided(String),
    Unsent(Errno),
}

/// Sends one packet and checks that the counters of the rules that redirect it rise: the rule that decides on a redirected packet may be a later
/// one, of another hook, without a counter.
fn send(packet: &Sent, port: u16) -> Result<Sending, Unproven> {
    let found = look()?;
    let expected = expected(&found, &packet.packet, port);
    if expected == Expected::Otherwise {
        return Err(Unproven::Otherwise { to: packet.to, port });
    }
    let before = count(&found, &packet.packet, port);
    let unsent = match packet.send() {
        // Refused: nobody listens on the proxy's port yet.
        Ok(()) | Err(Errno::INPROGRESS | Errno::CONNREFUSED) => None,
        // A rule dropped it, maybe behind the one that counts.
        Err(Errno::PERM) => Some(Errno::PERM),
        Err(errno) => return Ok(Sending::Unsent(errno)),
    };
    if count(&look()?, &packet.packet, port) > before {
        return Ok(Sending::Counted);
    }
    match (expected, unsent) {
        (Expected::Undecided(cause), _) => Ok(Sending::Undecided(cause)),
        (_, Some(errno)) => Ok(Sending::Unsent(errno)),
        (_, None) => Err(Unproven::Uncounted { to: packet.to, port }),
    }
}

/// Verdict of the rules that are there on a packet that is to be redirected.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Redirected,
    /// It depends on a rule that cannot be judged.
    Undecided(String),
    Otherwise,
}

fn expected(found: &FoundRules, packet: &Packet, port: u16) -> Expected {
    match found_verdict(found, packet).outcome {
        Ok(outcome) if outcome == (Outcome::Redirected { port }) => Expected::Redirected,
        Ok(_) => Expected::Otherwise,
        Err(undecided) => Expected::Undecided(undecided.to_string()),
    }
}

/// Packets that the rules counted that redirect the packet's family to `port`.
fn count(found: &FoundRules, packet: &Packet, port: u16) -> u64 {
    let tables = found.tables.iter().filter(|table| table.family.covers(packet.family()));
    let rules = tables.flat_map(|table| table.chains.iter().flat_map(|chain| &chain.rules));
    let redirecting = rules.filter(|rule| rule.actions.contains(&Action::Redirect(port)));
    redirecting.filter_map(|rule| rule.packets).sum()
}
