// SPDX-License-Identifier: Apache-2.0
//! Subject of an explanation: a pod as the CNI plugin would see it, or the flags of a programming run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use clap::ArgMatches;
use netfilter::Wish;
use redirect::host::Environment;
use redirect::list;
use redirect::ruleset::Dialect;
use redirect::sandbox::by_class;
use redirect::skip::{Exclusions, NamedPod, precheck};
use redirect::{Enrolment, enrol};

use super::captured::Captured;
use super::pod::{self, PodFile};
use super::{Decision, ExplainError, Explanation, Network, Plan, setting};
use crate::given::FlagValues;
use crate::settings::Settings;
use crate::surroundings::ProcessEnvironment;
use crate::world::World;

/// Namespace of the node agent in a default installation.
const AGENT_NAMESPACE: &str = "istio-system";

/// Explains the subject of the command line.
pub(super) fn explain(
    world: &mut World<'_>,
    given: &FlagValues,
    matches: &ArgMatches,
) -> Result<Explanation, ExplainError> {
    let settings = Settings::read(given)?;
    let captures = matches.get_many::<String>("rules").into_iter().flatten();
    let captures = captures.map(|path| file(world, path)).collect::<Result<Vec<_>, _>>()?;
    let mut explanation = match matches.get_one::<String>("pod") {
        Some(path) => {
            let text = file(world, path)?;
            of_pod(world, &settings, matches, &pod::read(&text)?)?
        }
        None => of_flags(world, given, &settings, matches)?,
    };
    if let Decision::Redirected(plan) = &mut explanation.decision {
        plan.notes.extend(given.ignored.iter().map(ToString::to_string));
        if !captures.is_empty() {
            let rules = Captured::read(captures.iter().map(String::as_str))?;
            plan.captured = Some(Captured::compare(rules, &plan.config, &plan.addresses)?);
        }
        for packet in matches.get_many::<String>("packet").into_iter().flatten() {
            plan.ask(packet)?;
        }
    }
    Ok(explanation)
}

fn file(world: &mut World<'_>, path: &str) -> Result<String, ExplainError> {
    let read = match path {
        "-" => {
            let mut text = String::new();
            world.stdin.read_to_string(&mut text).map(|_| text)
        }
        path => (world.file)(Path::new(path)),
    };
    read.map_err(|reason| ExplainError::File { path: path.to_owned(), reason })
}

fn dialect(settings: &Settings) -> Dialect {
    match settings.backend {
        Wish::Auto => Dialect::Iptables,
        Wish::Only(backend) => backend.dialect(),
    }
}

/// The addresses, in the order in which the kernel would list them: IPv4 first.
fn network(matches: &ArgMatches, known: Vec<IpAddr>) -> Result<(Vec<IpAddr>, Network), ExplainError> {
    let (mut addresses, network) = if let Some(text) = matches.get_one::<String>("addresses") {
        let parse = |element: &str| element.parse().map_err(|_| ExplainError::Address(element.to_owned()));
        (list::elements(text).map(parse).collect::<Result<Vec<IpAddr>, _>>()?, Network::FlagValues)
    } else if matches.get_flag("ipv6") {
        (vec![Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()], Network::Assumed)
    } else if known.is_empty() {
        (vec![Ipv4Addr::new(192, 0, 2, 1).into()], Network::Assumed)
    } else {
        (known, Network::Status)
    };
    addresses.sort_by_key(IpAddr::is_ipv6);
    Ok((addresses, network))
}

fn of_pod(
    world: &World<'_>,
    settings: &Settings,
    matches: &ArgMatches,
    PodFile { facts, addresses }: &PodFile,
) -> Result<Explanation, ExplainError> {
    let named = NamedPod::from(&facts.metadata);
    let name = Some(named.name).filter(|_| !facts.metadata.name.is_empty());
    let subject = format!("pod {}/{}", named.namespace, name.unwrap_or("(without a name)"));
    let excluded = matches.get_one::<String>("exclude-namespaces").map(String::as_str).unwrap_or_default();
    let excluded: Vec<String> = list::elements(excluded).map(str::to_owned).collect();
    if let Some(reason) =
        precheck(named, Exclusions { agent_namespace: AGENT_NAMESPACE, namespaces: &excluded })
    {
        return Ok(Explanation { subject, decision: Decision::Skipped(reason) });
    }
    let redirect = match enrol(facts) {
        Err(error) => return Ok(Explanation { subject, decision: Decision::Refused(error) }),
        Ok(Enrolment::Skip(reason)) => {
            return Ok(Explanation { subject, decision: Decision::Skipped(reason) });
        }
        Ok(Enrolment::Enrol(redirect)) => redirect,
    };
    let network = network(matches, addresses.clone())?;
    let config = redirect.config_for(network.0.iter().copied(), &Environment::read(world.env)?)?;
    let mut config = config.in_dialect(dialect(settings));
    let listed = setting::of_pod(&redirect, &config, world.env);
    // No packet is of a name that is unknown.
    let _ = ProcessEnvironment { env: world.env, file: world.file }.resolve(&mut config);
    let mut plan = Plan::new(config, listed, network)?;
    plan.notes.extend(redirect.warnings.iter().map(ToString::to_string));
    plan.notes.extend(redirect.shared.iter().map(ToString::to_string));
    plan.notes.extend(by_class(redirect.runtime_class.as_deref()).map(|sandboxed| sandboxed.to_string()));
    Ok(Explanation { subject, decision: Decision::Redirected(Box::new(plan)) })
}

fn of_flags(
    world: &World<'_>,
    given: &FlagValues,
    settings: &Settings,
    matches: &ArgMatches,
) -> Result<Explanation, ExplainError> {
    settings.check_ports()?;
    let network = network(matches, Vec::new())?;
    let surroundings = ProcessEnvironment { env: world.env, file: world.file };
    let whole = surroundings.complete(settings, dialect(settings), network.0.iter().copied())?;
    let listed = setting::of_flags(given, &whole.given, world.env);
    let mut plan = Plan::new(whole.config.in_dialect(dialect(settings)), listed, network)?;
    plan.notes.extend(whole.warning.map(str::to_owned));
    // They may be known where the rules are to be.
    plan.notes.extend(whole.names.err().map(|unknown| unknown.to_string()));
    Ok(Explanation {
        subject: "a pod with these flags".to_owned(),
        decision: Decision::Redirected(Box::new(plan)),
    })
}
