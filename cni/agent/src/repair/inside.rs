// SPDX-License-Identifier: Apache-2.0
//! The process that enters namespaces for the agent: `install-cni in-pod`. It reads a [`ChildRequest`], finds each pod's namespace, works in it
//! and answers. It has one thread and ends with its work, so that the agent never is in a pod's namespace, and a namespace that hangs
//! costs no more than this process.

use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use netfilter::address::{Address, AddressError, Rtnetlink};
use netfilter::backend::Choice;
use netfilter::flows;
use netfilter::lack::{Lack, lacks};
use netfilter::owner;
use netfilter::program::{self, Options};
use netfilter::{Applied, Wish, look};
use protocol::error::with_sources;
use redirect::config::{Config, ConfigError};
use redirect::found::compare::{Difference, forms};
use redirect::generate::ruleset;
use redirect::host::{Environment, is_ordinary};
use redirect::ruleset::Family;
use redirect::sandbox::{Sandboxed, by_links};
use redirect::verdict::unredirected;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ask::{
    BackendWanted, ChildReply, ChildRequest, Evidence, OpenConnections, PodOutcome, Proven, TargetPod, Task,
    Written,
};
use super::find;
use super::gather::{Gathered, PodNamespace, gather};
use super::probe;

pub const COMMAND: &str = "in-pod";

/// Serves one request from stdin.
#[must_use]
pub fn main() -> ExitCode {
    // Each namespace of the node is an open file here, and a container may begin with 1024.
    let files = getrlimit(Resource::Nofile);
    let _fewer = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    let mut text = Vec::new();
    let read = std::io::stdin().read_to_end(&mut text);
    let Some(request) = read.ok().and_then(|_| serde_json::from_slice::<ChildRequest>(&text).ok()) else {
        return ExitCode::from(64);
    };
    let answer = serve(&request);
    let written = serde_json::to_vec(&answer).ok().and_then(|text| std::io::stdout().write_all(&text).ok());
    if written.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the task. The calling thread ends in one of the namespaces.
#[must_use]
pub fn serve(request: &ChildRequest) -> ChildReply {
    let outcomes = match gather(&request.grounds) {
        Ok(gathered) => request.pods.iter().map(|pod| one(request, pod, &gathered)).collect(),
        Err(error) => request.pods.iter().map(|_| PodOutcome::Failed(error.to_string())).collect(),
    };
    ChildReply { outcomes }
}

fn one(request: &ChildRequest, pod: &TargetPod, gathered: &Gathered) -> PodOutcome {
    let at = match find::find(&pod.identity, &pod.addresses, &gathered.candidates) {
        Ok(at) => at,
        Err(why) => return PodOutcome::NotFound(why),
    };
    let Some(PodNamespace { netns, addresses }) = gathered.namespaces.get(at) else {
        return PodOutcome::Failed("find the namespace".to_owned());
    };
    let work = || -> Result<PodOutcome, Failure> {
        netns.enter_for_good()?;
        let mut rtnetlink = Rtnetlink::open()?;
        if let Some(sandboxed) = sandboxed(&mut rtnetlink, pod.redirect.runtime_class.as_deref())? {
            return Ok(PodOutcome::Sandboxed(sandboxed));
        }
        let environment = Environment::read(|name| std::env::var(name).ok())?;
        let config_for = |addresses: &[Address]| {
            pod.redirect.config_for(addresses.iter().map(|address| address.ip), &environment)
        };
        let primary = of_primary_interface(addresses, &pod.addresses);
        let config = config_for(&primary)?;
        if request.task == Task::Repair {
            let proc = &request.grounds.proc_dir;
            return repair(&mut rtnetlink, &config, &primary, (&request.backend, proc));
        }
        let outcome = compare(&mut rtnetlink, &config, addresses)?;
        // Where Multus runs the plugin, ADD decides by what other networks attached before as well.
        let by_all = config_for(addresses)?;
        let is_right_by_all = outcome != PodOutcome::Right
            && by_all != config
            && compare(&mut rtnetlink, &by_all, addresses)? == PodOutcome::Right;
        let right = match (&outcome, is_right_by_all) {
            (PodOutcome::Right, _) => (config, primary),
            (_, true) => (by_all, addresses.clone()),
            _ => return Ok(outcome),
        };
        match request.task {
            Task::Verify => verify(&right.0, &right.1),
            Task::Look | Task::Repair => Ok(PodOutcome::Right),
        }
    };
    work().unwrap_or_else(|error| PodOutcome::Failed(error.to_string()))
}

/// The guest that a pod of this RuntimeClass runs in. Of a pod without a class nothing depends on links that cannot be read.
fn sandboxed(rtnetlink: &mut Rtnetlink, class: Option<&str>) -> Result<Option<Sandboxed>, Failure> {
    match rtnetlink.guest_links() {
        Ok(links) => Ok(by_links(class, &links)),
        Err(_) if class.is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Addresses of the interface that has the pod's first one: those that ADD decided by, whatever was attached since. All, if none has it.
fn of_primary_interface(addresses: &[Address], of_pod: &[IpAddr]) -> Vec<Address> {
    let primary = addresses.iter().find(|address| of_pod.first() == Some(&address.ip));
    let is_its = |address: &&Address| primary.is_none_or(|primary| primary.interface == address.interface);
    addresses.iter().filter(is_its).copied().collect()
}

/// Failure in a pod's namespace.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Netns(#[from] netfilter::NetnsError),
    #[error("failed to {}", with_sources(.0))]
    Address(#[from] AddressError),
    #[error(transparent)]
    Environment(#[from] redirect::host::EnvironmentError),
    #[error(transparent)]
    NoAddress(#[from] redirect::host::NoLocalAddress),
    #[error("failed to {}", with_sources(.0))]
    Guest(#[from] netfilter::guest::GuestError),
    #[error("failed to {}", with_sources(.0))]
    Look(#[from] netfilter::LookError),
    #[error("failed to {}", with_sources(.0))]
    Compare(#[from] netfilter::lack::LackError<netfilter::ground::GroundError>),
    #[error("failed to generate rules: {0}")]
    Config(#[from] ConfigError),
    #[error("failed to {}", with_sources(.0))]
    Program(#[from] netfilter::ProgramError),
    #[error("failed to {}", with_sources(.0))]
    Owner(#[from] owner::OwnerError),
}

fn compare(rtnetlink: &mut Rtnetlink, config: &Config, addresses: &[Address]) -> Result<PodOutcome, Failure> {
    let addresses: Vec<_> = addresses.iter().map(|address| address.ip).collect();
    let has_routes = |routes| Ok(rtnetlink.has_policy_routes(routes)?);
    let found = look()?;
    let mut lacks = lacks(&found, config, &addresses, has_routes)?;
    // Foreign rules may or may not keep packets from ours; the probe knows.
    lacks.retain(|lack| !matches!(lack, Lack::Rules(Difference::Foreign(_))));
    let (overtaken, others): (Vec<_>, Vec<_>) =
        lacks.iter().partition(|lack| matches!(lack, Lack::Rules(Difference::Overtaken(_))));
    let said = |lacks: &[&Lack]| lacks.iter().map(ToString::to_string).collect();
    match (others.as_slice(), overtaken.as_slice()) {
        ([], []) => return Ok(PodOutcome::Right),
        ([], overtaken) => return Ok(PodOutcome::Overtaken(said(overtaken))),
        _ => {}
    }
    let wanted = ruleset(config)?;
    let ports = [config.proxy_port, config.inbound_capture_port];
    let differences = said(&others);
    let is_missing = |family: Family| {
        addresses.iter().any(|address| is_ordinary(*address) && Family::of(*address) == family)
            && !unredirected(&found, &wanted, family, &ports).is_empty()
    };
    Ok(match is_missing(Family::V4) || is_missing(Family::V6) {
        true => PodOutcome::Unredirected(differences),
        false => PodOutcome::Wrong(differences),
    })
}

/// Proves rules that are right.
fn verify(config: &Config, addresses: &[Address]) -> Result<PodOutcome, Failure> {
    let backend = forms(&look()?).first().map_or_else(String::new, |form| form.to_string());
    let written = Written::Unchanged;
    owner::enter()?;
    Ok(match probe::prove(config, addresses) {
        Ok(families) => PodOutcome::Proven { written, backend, families, open: OpenConnections::default() },
        Err(unproven) => PodOutcome::Unproven { written, why: with_sources(&unproven) },
    })
}

/// Ends connections that were open before the rules.
fn open(config: &Config, addresses: &[Address], proc: &Path) -> OpenConnections {
    match flows::settle(config, addresses, proc) {
        Ok(settled) => OpenConnections { bypass: !settled.is_whole(), text: settled.to_string() },
        Err(error) => {
            let why = with_sources(&error);
            OpenConnections {
                bypass: true,
                text: format!(
                    "connections that were open before the rules may bypass the proxy: failed to {why}"
                ),
            }
        }
    }
}

fn repair(
    rtnetlink: &mut Rtnetlink,
    config: &Config,
    addresses: &[Address],
    (backend, proc): (&BackendWanted, &Path),
) -> Result<PodOutcome, Failure> {
    let (wish, recorded) = (backend.wish, recorded(backend));
    let request = program::Request { config: config.clone(), wish, recorded, options: Options::default() };
    let programmed = program::program(rtnetlink, request)?;
    let written = match programmed.applied {
        Applied::Created => Written::Created,
        Applied::Replaced => Written::Replaced,
        Applied::Unchanged => Written::Unchanged,
    };
    let backend = programmed.choice.backend.to_string();
    // The rules' own helper address came with them.
    let programmed = rtnetlink.list()?;
    let overtaken = match compare(rtnetlink, config, &programmed)? {
        PodOutcome::Wrong(lacks) | PodOutcome::Unredirected(lacks) => {
            return Ok(PodOutcome::Unproven { written, why: lacks.join("; ") });
        }
        PodOutcome::Overtaken(rules) if written == Written::Unchanged => {
            return Ok(PodOutcome::Overtaken(rules));
        }
        PodOutcome::Overtaken(rules) => rules,
        _ => Vec::new(),
    };
    // Users and groups of rules and of the probe are the pod's.
    owner::enter()?;
    let open = match written {
        Written::Unchanged => OpenConnections::default(),
        Written::Created | Written::Replaced => open(config, &programmed, proc),
    };
    Ok(match probe::prove(config, addresses) {
        Ok(families) => {
            PodOutcome::Proven { written, backend, families: despite(&overtaken, families), open }
        }
        Err(unproven) => PodOutcome::Unproven { written, why: with_sources(&unproven) },
    })
}

/// Evidence where rules of others take packets before ours: a packet of the probe that met ours says nothing of those.
fn despite(overtaken: &[String], mut families: Vec<Proven>) -> Vec<Proven> {
    if !overtaken.is_empty() {
        let why = overtaken.join("; ");
        families.iter_mut().for_each(|proven| proven.evidence = Evidence::Rules { why: why.clone() });
    }
    families
}

/// The node's recorded back end; a malformed record counts as absent.
fn recorded(backend: &BackendWanted) -> Option<Choice> {
    match backend.wish {
        Wish::Auto => Choice::from_record(&std::fs::read_to_string(&backend.record).ok()?),
        Wish::Only(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use redirect::host::{Stack, decide_addresses};

    use super::*;

    fn address(ip: &str, interface: u32) -> Address {
        Address { ip: ip.parse().unwrap(), length: 24, interface, flags: 0 }
    }

    #[test]
    fn what_was_attached_later_does_not_decide_the_families() {
        let addresses = [
            address("127.0.0.1", 1),
            address("172.17.0.1", 4),
            address("::1", 1),
            address("fd00::2", 2),
            address("fe80::2", 2),
        ];
        let families = |of_pod: &str| {
            let primary = of_primary_interface(&addresses, &[of_pod.parse().unwrap()]);
            decide_addresses(primary.iter().map(|address| address.ip), Stack::FirstAddress).unwrap()
        };
        assert!(families("fd00::2").ipv6);
        assert!(!families("172.17.0.1").ipv6);
        assert!(!families("10.9.0.2").ipv6, "nobody has it: all count");
    }
}
