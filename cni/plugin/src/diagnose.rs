// SPDX-License-Identifier: Apache-2.0
//! `istio-cni diagnose`: what a pod's namespace holds, whoever wrote it, compared with what the pod should have.

pub mod arguments;
mod conf;
mod pod;
pub mod report;

use std::io::{self, Write};
use std::path::PathBuf;

use netfilter::address::AddressError;
use netfilter::ground::GroundError;
use netfilter::guest::GuestError;
use netfilter::lack::{LackError, lacks};
use netfilter::{LookError, NetnsError};
use protocol::agent::PodKey;
use protocol::env::{Command, Invocation, NetnsOverride};
use protocol::error::CniError;
use protocol::netconf::{NetConf, NoInterception};
use protocol::pod::PodFacts;
use redirect::enrol::AnnotationError;
use redirect::found::FoundRules;
use redirect::found::compare::{Form, forms};
use redirect::host::{Environment, EnvironmentError, NoLocalAddress, Stack, is_ordinary};
use redirect::sandbox::by_links;
use redirect::skip::{NamedPod, SkipReason, precheck};
use redirect::{Enrolment, Redirect, enrol_by};

use crate::api::Patience;
use crate::apply::resolve_groups;
use crate::context::{Call, Exit};
use crate::gather::{self, FactsError};
use crate::kernel::Namespace;
use crate::log::Log;
use crate::world::World;
use arguments::{Arguments, HELP, PodWanted, UsageError};
use pod::NotAPod;
use report::Report;

/// Failure to diagnose.
#[derive(Debug, thiserror::Error)]
enum DiagnoseError {
    /// The namespace cannot be opened or entered.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Its rules cannot be read.
    #[error("failed to {0}")]
    Look(#[from] LookError),
    /// Its links cannot be read.
    #[error("failed to {0}")]
    Guest(#[from] GuestError),
    /// Its addresses cannot be read.
    #[error("failed to {0}")]
    Address(#[from] AddressError),
    /// It cannot be compared with what the pod should have.
    #[error("failed to {0}")]
    Compare(#[from] LackError<GroundError>),
    /// The pod has no network yet.
    #[error(transparent)]
    NoAddress(#[from] NoLocalAddress),
    /// The environment cannot be used.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A file cannot be read.
    #[error("failed to read {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        reason: io::Error,
    },
    /// The file is no pod.
    #[error("{} is not a pod in JSON: {reason}", path.display())]
    NotAPod {
        /// The file.
        path: PathBuf,
        reason: NotAPod,
    },
    /// There is no configuration to look the pod up with.
    #[error("{looked}: give --conf FILE or --pod-json FILE")]
    NoConf {
        /// Where it was looked for.
        looked: conf::Looked,
    },
    /// The configuration cannot be used.
    #[error("{}: {error}", path.display())]
    Conf {
        /// The file.
        path: PathBuf,
        error: CniError,
    },
    /// Nobody told about the pod.
    #[error("{0}")]
    Facts(#[from] FactsError),
}

/// Serves `istio-cni diagnose`.
pub fn run(mut world: World<'_>, words: &[String]) -> Exit {
    let arguments = match arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(UsageError::Help) => return say(world.stdout, HELP, Exit::Success),
        Err(error) => {
            return say(world.stderr, &format!("istio-cni diagnose: {error}\n\n{HELP}"), Exit::Usage);
        }
    };
    match diagnose(&mut world, &arguments) {
        Ok(report) => {
            let is_right = report.differences.is_empty();
            let exit = if is_right { Exit::Success } else { Exit::Failure };
            say(world.stdout, &report.text(arguments.output), exit)
        }
        Err(error) => say(world.stderr, &format!("istio-cni diagnose: {error}\n"), Exit::Undecided),
    }
}

fn say(out: &mut dyn Write, text: &str, exit: Exit) -> Exit {
    match out.write_all(text.as_bytes()) {
        Ok(()) => exit,
        Err(_) => Exit::Undecided,
    }
}

/// Expected rules of a pod.
enum Expected {
    Rules(Box<Redirect>, String),
    NoRules(String),
    Impossible(AnnotationError),
}

impl Expected {
    fn left_alone(reason: &SkipReason) -> Self {
        Self::NoRules(format!("left alone: {reason}"))
    }
}

fn diagnose(world: &mut World<'_>, arguments: &Arguments) -> Result<Report, DiagnoseError> {
    // Everything that needs the node's network comes before the pod's is entered.
    let expected = expected(world, &arguments.pod, arguments.conf.as_ref())?;
    let mut environment = Environment::read(world.env)?;
    // Rules of a name that is unknown cannot be there.
    let _ = resolve_groups(&mut environment);
    let netns = world.kernel.open_of_node(&arguments.netns)?;
    netns.enter()?;
    let found = netns.found()?;
    let notes = match &expected {
        Expected::Rules(redirect, _) => notes(redirect, netns.as_ref())?,
        Expected::NoRules(_) | Expected::Impossible(_) => Vec::new(),
    };
    let (expected, differences) = match expected {
        Expected::Rules(redirect, text) => (text, compare(&redirect, netns.as_ref(), &found, &environment)?),
        Expected::NoRules(text) => (text, not_wanted(&found)),
        Expected::Impossible(error) => {
            (format!("refused: {error}"), vec!["the runtime must not start this pod".to_owned()])
        }
    };
    let rules = found.tables.iter().flat_map(|table| &table.chains).map(|chain| chain.rules.len()).sum();
    Ok(Report {
        netns: arguments.netns.display().to_string(),
        expected,
        forms: forms(&found),
        rules,
        differences,
        notes,
    })
}

/// Traffic that does not meet rules, however right they are.
fn notes(redirect: &Redirect, netns: &dyn Namespace) -> Result<Vec<String>, DiagnoseError> {
    let sandboxed = by_links(redirect.runtime_class.as_deref(), &netns.guest_links()?);
    let shared = redirect.shared.iter().map(ToString::to_string);
    Ok(sandboxed.iter().map(ToString::to_string).chain(shared).collect())
}

fn not_wanted(found: &FoundRules) -> Vec<String> {
    if forms(found).is_empty() {
        return Vec::new();
    }
    vec!["there are redirection rules, and the pod is not to be redirected".to_owned()]
}

fn compare(
    redirect: &Redirect,
    netns: &dyn Namespace,
    found: &FoundRules,
    environment: &Environment,
) -> Result<Vec<String>, DiagnoseError> {
    let all = netns.addresses()?;
    let config = redirect.config_for(all.iter().copied(), environment)?;
    let form = forms(found).first().copied().unwrap_or(Form::Iptables);
    let lacks = lacks(found, &config, &all, |routes| netns.has_policy_routes(routes))?;
    let mut said: Vec<String> = lacks.iter().map(ToString::to_string).collect();
    if redirect.stack.value == Stack::FirstAddress
        && !config.ipv6
        && form != Form::Native
        && all.iter().any(|address| address.is_ipv6() && is_ordinary(*address))
    {
        said.push(
            "the pod has IPv6 addresses and its first one is of IPv4: IPv6 traffic bypasses the proxy (set ISTIO_DUAL_STACK)"
                .to_owned(),
        );
    }
    Ok(said)
}

fn expected(
    world: &mut World<'_>,
    pod: &PodWanted,
    conf: Option<&PathBuf>,
) -> Result<Expected, DiagnoseError> {
    let mut no_interception = NoInterception::default();
    let (facts, of) = match pod {
        PodWanted::Unknown => {
            let facts = conf::ordinary_sidecar();
            (facts, "redirected like a sidecar without annotations (no pod was named)".to_owned())
        }
        PodWanted::Json(path) => {
            let facts = from_file(path)?;
            let conf = conf.map(|path| conf::read(Some(path), world.env)).transpose()?;
            if let Some(conf) = conf {
                if let Some(reason) = precheck((&facts.metadata).into(), (&conf).into()) {
                    return Ok(Expected::left_alone(&reason));
                }
                no_interception = conf.no_interception;
            }
            (facts, format!("redirected as {} says", path.display()))
        }
        PodWanted::Named { namespace, name } => {
            let conf = &conf::read(conf, world.env)?;
            if let Some(reason) = precheck(NamedPod { name, namespace }, conf.into()) {
                return Ok(Expected::left_alone(&reason));
            }
            no_interception = conf.no_interception;
            let facts = from_cluster(world, (namespace, name), conf)?;
            (facts, format!("redirected as pod {namespace}/{name} says"))
        }
    };
    Ok(match enrol_by(&facts, no_interception) {
        Ok(Enrolment::Enrol(redirect)) => Expected::Rules(redirect, of),
        Ok(Enrolment::Skip(reason)) => Expected::left_alone(&reason),
        Err(error) => Expected::Impossible(error),
    })
}

fn from_file(path: &PathBuf) -> Result<PodFacts, DiagnoseError> {
    let text = std::fs::read(path).map_err(|reason| DiagnoseError::File { path: path.clone(), reason })?;
    pod::read(&text).map_err(|reason| DiagnoseError::NotAPod { path: path.clone(), reason })
}

fn from_cluster(
    world: &mut World<'_>,
    (namespace, name): (&str, &str),
    conf: &NetConf,
) -> Result<PodFacts, DiagnoseError> {
    let key = PodKey { namespace: namespace.to_owned(), name: name.to_owned(), ..PodKey::default() };
    // As for a CHECK, but that nobody waits for it.
    let invocation = Invocation {
        command: Command::Check,
        container_id: String::new(),
        netns: None,
        ifname: String::new(),
        args: String::new(),
        netns_override: NetnsOverride::default(),
    };
    let World { env, stderr, clock, agent, api, kernel, .. } = world;
    let log = Log::new(*stderr, *clock);
    let mut call = Call::new(invocation, (*env, *clock), (*agent, *api, *kernel), log);
    let asked = gather::ask(&call, conf, &key, &Patience::DIAGNOSIS);
    Ok(gather::facts(&mut call, conf, &key, asked, &Patience::DIAGNOSIS)?.0)
}
