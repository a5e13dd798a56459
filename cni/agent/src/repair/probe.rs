// SPDX-License-Identifier: Apache-2.0
//! The proof that a pod's traffic is redirected, from inside its namespace: one packet is sent without any right, as a user that is not the
//! proxy's, and the rule that redirects it must have counted it.
//!
//! No port is bound, as the proxy may start at any moment. What the wanted rules do with a packet says the evaluator of rules
//! ([`redirect::verdict`]); a packet is chosen that they redirect. Inbound packets cannot be made from inside: for those the rules that
//! were read back stand.

use std::net::{IpAddr, SocketAddr};

use netfilter::address::Address;
use netfilter::{LookError, look};
use redirect::config::{Config, ConfigError};
use redirect::found::FoundRules;
use redirect::found::compare::{Form, forms};
use redirect::generate::ruleset;
use redirect::host::{Stack, decide_addresses};
use redirect::packet::{Outcome, Packet};
use redirect::ruleset::{Family, Ruleset};
use redirect::verdict::{FoundStep, found_verdict, verdict};
use rustix::io::Errno;

use super::ask::{Evidence, Proven};
use super::packets::{Sent, candidates, samples};

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
    let wanted = in_form_of(&look()?, config)?;
    let mut proven = Vec::new();
    for (family, own) in families(config, addresses) {
        let evidence = one(config, &wanted, family, &own)?;
        let name = if family == Family::V4 { "IPv4" } else { "IPv6" };
        proven.push(Proven { family: name.to_owned(), evidence });
    }
    Ok(proven)
}

/// True if rules that were found catch what those of `config` catch, as far as [`samples`] tell; no packet is sent.
///
/// # Errors
/// The configuration yields no rules.
pub fn catches(found: &FoundRules, config: &Config, addresses: &[Address]) -> Result<bool, ConfigError> {
    let wanted = in_form_of(found, config)?;
    let samples = families(config, addresses).flat_map(|(family, own)| samples(config, family, &own));
    let outcomes = samples.map(|packet| (verdict(&wanted, &packet).outcome, packet));
    let is_caught = |outcome| matches!(outcome, Outcome::Redirected { .. } | Outcome::Intercepted { .. });
    let mut caught = outcomes.filter(|(outcome, _)| is_caught(*outcome)).peekable();
    Ok(caught.peek().is_some()
        && caught.all(|(outcome, packet)| found_verdict(found, &packet).outcome == Ok(outcome)))
}

/// The rules of `config` in the form in which rules are.
fn in_form_of(found: &FoundRules, config: &Config) -> Result<Ruleset, ConfigError> {
    let form = forms(found).first().copied().unwrap_or(Form::Iptables);
    ruleset(&Config { dialect: form.dialect(), ..config.clone() })
}

/// The families that the pod has addresses of, and rules for, with these addresses.
fn families<'a>(
    config: &Config,
    addresses: &'a [Address],
) -> impl Iterator<Item = (Family, Vec<&'a Address>)> {
    let wanted: &[Family] = if config.ipv6 { &[Family::V4, Family::V6] } else { &[Family::V4] };
    let own = |family| {
        let is_of = |address: &&Address| address.ip.is_ipv4() == (family == Family::V4);
        addresses.iter().filter(is_of).filter(|address| is_own(address.ip)).collect::<Vec<_>>()
    };
    wanted.iter().map(move |family| (*family, own(*family))).filter(|(_, own)| !own.is_empty())
}

/// True if the rules treat the address as an ordinary one.
fn is_own(address: IpAddr) -> bool {
    decide_addresses([address], Stack::Dual).is_ok()
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
    let rule =
        redirecting(&look()?, &packet.packet, port).ok_or(Unproven::Otherwise { to: packet.to, port })?;
    let before = count(&look()?, &rule);
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

#[cfg(test)]
mod tests {
    use redirect::config::Dns;
    use redirect::found::save;
    use redirect::list::Selection;
    use redirect::text;

    use super::*;

    /// True if an ordinary pod's rules with this change still catch its traffic.
    fn is_caught(dns: Dns, change: impl Fn(String) -> String) -> bool {
        let config = Config {
            inbound_ports_include: Some(Selection::All),
            outbound_ranges_include: Selection::All,
            dns,
            ..Config::default()
        };
        let text = text::restore(&ruleset(&config).unwrap(), Family::V4);
        let changed = change(text.clone());
        assert_ne!(changed, text);
        let address = |ip: &str, interface| Address {
            ip: ip.parse().unwrap(),
            length: 24,
            interface,
            scope: 0,
            flags: 0,
        };
        let addresses = [address("127.0.0.1", 1), address("10.9.0.2", 2)];
        catches(&save::parse(&changed, Family::V4).unwrap(), &config, &addresses).unwrap()
    }

    #[test]
    fn rules_of_another_version_and_with_one_of_a_plugin_s_catch_the_same() {
        let entry = "-A OUTPUT -j ISTIO_OUTPUT\n";
        let of_tcp = |text: String| text.replace(entry, "-A OUTPUT -p tcp -j ISTIO_OUTPUT\n");
        assert!(is_caught(Dns::Off, of_tcp));
        assert!(!is_caught(Dns::All, of_tcp), "questions over UDP pass by");
        for (rule, caught) in [
            ("-p tcp --dport 5432", true),
            ("-p tcp", false),
            // Not to be judged.
            ("-p tcp -m quota --quota 7", false),
        ] {
            let with = format!("{entry}-A ISTIO_OUTPUT {rule} -j RETURN\n");
            assert_eq!(is_caught(Dns::All, |text| text.replace(entry, &with)), caught, "{rule}");
        }
    }

    #[test]
    fn rules_that_lack_one_of_the_ways_do_not() {
        for lost in ["-A OUTPUT -j ISTIO_OUTPUT\n", "-A PREROUTING -p tcp -j ISTIO_INBOUND\n", "--dport 53"] {
            let is_of_it = |line: &&str| !format!("{line}\n").contains(lost);
            let without = |text: String| text.lines().filter(is_of_it).collect::<Vec<_>>().join("\n");
            assert!(!is_caught(Dns::All, without), "{lost}");
        }
        assert!(!is_caught(Dns::All, |_| String::new()));
    }
}
