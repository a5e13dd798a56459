// SPDX-License-Identifier: Apache-2.0
//! `istio-iptables explain`: what is decided about a pod and why, the rules, and what they do with a packet. It changes nothing and
//! asks no cluster: a pod's file or the flags of programming are all that it needs.

mod captured;
mod human;
mod json;
mod packet;
mod pod;
mod setting;
mod subject;

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;

use clap::{Arg, ArgAction, ArgMatches, Command};
use protocol::error::with_sources;
use protocol::text;
use redirect::config::ConfigError;
use redirect::enrol::AnnotationError;
use redirect::found::capture::CaptureError;
use redirect::host::{EnvironmentError, NoLocalAddress};
use redirect::packet::{Packet, Verdict};
use redirect::ruleset::{ChainRules, Dialect, Family, Ruleset};
use redirect::skip::SkipReason;
use redirect::verdict::{FoundVerdict, verdict};
use redirect::{Config, generate};

use crate::exit::Exit;
use crate::given::{FlagValues, with_flags};
use crate::settings::SettingError;
use crate::surroundings::SurroundingsError;
use crate::world::World;
use captured::Captured;
use setting::Setting;

/// Explanation of a pod or command line.
struct Explanation {
    subject: String,
    decision: Decision,
}

/// Enrolment decision.
enum Decision {
    Skipped(SkipReason),
    Refused(AnnotationError),
    Redirected(Box<Plan>),
}

/// Redirection of an enrolled pod.
struct Plan {
    config: Config,
    addresses: Vec<IpAddr>,
    network: Network,
    notes: Vec<String>,
    settings: Vec<Setting>,
    ruleset: Ruleset,
    packets: Vec<Query>,
    captured: Option<Captured>,
}

/// Queried packet.
struct Query {
    text: String,
    packet: Packet,
    verdict: Verdict,
    /// Verdict of captured rules.
    captured: Option<FoundVerdict>,
}

/// Source of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Status,
    FlagValues,
    Assumed,
}

impl Network {
    fn name(self) -> &'static str {
        match self {
            Self::Status => "status.podIPs",
            Self::FlagValues => "--addresses",
            Self::Assumed => "assumed",
        }
    }
}

/// Families of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Of(Family),
    Inet,
}

impl Listing {
    fn name(self) -> &'static str {
        match self {
            Self::Of(Family::V4) => "IPv4",
            Self::Of(Family::V6) => "IPv6",
            Self::Inet => "inet",
        }
    }
}

/// Explain error.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
    #[error("open {path}")]
    File {
        path: String,
        #[source]
        reason: io::Error,
    },
    #[error(transparent)]
    Pod(#[from] pod::PodError),
    #[error("use --rules: {0}")]
    Capture(#[from] CaptureError),
    #[error("read --addresses: {0:?} is no address")]
    Address(String),
    #[error(transparent)]
    Packet(#[from] packet::PacketError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Surroundings(#[from] SurroundingsError),
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("decide the address family: {0}")]
    NoAddress(#[from] NoLocalAddress),
    #[error("generate rules")]
    Config(#[from] ConfigError),
}

const HELP: &str = "A packet is DIRECTION PROTOCOL DESTINATION [WORD VALUE]...
  DIRECTION    out (to elsewhere), own (to the pod's own address), loopback, in (from elsewhere)
  PROTOCOL     tcp, udp or icmp
  DESTINATION  ADDRESS:PORT, [ADDRESS]:PORT, for icmp ADDRESS; but for out, :PORT will do
  WORD         uid N, gid N, from ADDRESS[:PORT], iface NAME, mark N, connmark N,
               state new|established|related|invalid

Examples:
  istio-iptables explain --pod cart.yaml
  kubectl get pod cart -o yaml | istio-iptables explain --pod - -o json
  istio-iptables explain --pod cart.yaml --packet 'out tcp 10.1.2.3:443 uid 1000'
  istio-iptables explain --pod cart.yaml --packet 'in tcp :8080 from 10.1.2.9'
  iptables-save > v4.txt; ip6tables-save > v6.txt      # in the pod
  istio-iptables explain --pod cart.yaml --rules v4.txt --rules v6.txt --packet 'out tcp 10.1.2.3:443'
  istio-iptables explain --addresses 10.1.2.4,fd00::4 --dual-stack -i '*' -b '*' --packet 'own tcp :80 uid 1337'

Exit codes: 0 explained; 1 an annotation, a setting or the environment is refused; 64 bad usage";

fn command() -> Command {
    let text =
        |name: &'static str, help: &'static str| Arg::new(name).long(name).value_name("TEXT").help(help);
    let output = Arg::new("output").long("output").value_name("FORMAT").value_parser(["human", "json"]);
    with_flags(Command::new("istio-iptables explain"))
        .about("Explains what is decided about a pod, its rules, and what they do with a packet")
        .after_help(HELP)
        .next_help_heading("Explain")
        .arg(
            text("pod", "The pod, YAML or JSON; - for standard input. Without it, the flags are explained")
                .value_name("FILE"),
        )
        .arg(
            text("addresses", "What the pod's network has (default: status.podIPs, else an IPv4 address)")
                .value_name("ADDRESS,..."),
        )
        .arg(
            Arg::new("ipv6")
                .long("ipv6")
                .action(ArgAction::SetTrue)
                .conflicts_with("addresses")
                .help("It has an IPv6 address and no other"),
        )
        .arg(
            text("packet", "What becomes of this packet; may be repeated")
                .action(ArgAction::Append)
                .value_name("PACKET"),
        )
        .arg(
            text(
                "rules",
                "Rules captured in the pod (iptables-save, ip6tables-save, nft list ruleset, nft -j list ruleset): how they differ, \
                 and what they do with packets; may be repeated",
            )
            .action(ArgAction::Append)
            .value_name("FILE"),
        )
        .arg(text("exclude-namespaces", "The node's excluded namespaces").value_name("NAMESPACE,...").default_value("kube-system"))
        .arg(output.default_value("human").help("human or json; also -o human and -o json"))
}

/// `-o` is a flag of programming, whose value is never the name of a format: there it means the output.
fn name_output(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut named: Vec<OsString> = Vec::new();
    for argument in arguments {
        let is_format = argument == "human" || argument == "json";
        match named.last_mut() {
            Some(last) if is_format && last == "-o" => *last = "--output".into(),
            _ => {}
        }
        named.push(argument);
    }
    named
}

/// Runs `explain` with its arguments.
pub fn run(world: &mut World<'_>, arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let (given, matches) = match FlagValues::read(command(), name_output(arguments), world.env) {
        Ok(read) => read,
        Err(error) if error.use_stderr() => {
            // Where standard error is closed, nobody listens.
            let _ = write!(world.stderr, "{}", error.render());
            return Exit::Usage;
        }
        Err(help) => {
            let _ = write!(world.stdout, "{}", help.render());
            return Exit::Success;
        }
    };
    match subject::explain(world, &given, &matches) {
        Ok(explanation) => show(world, &explanation, &matches),
        Err(error) => {
            let _ = writeln!(world.stderr, "istio-iptables: failed to {}", with_sources(&error));
            exit(&error)
        }
    }
}

fn exit(error: &ExplainError) -> Exit {
    match error {
        ExplainError::File { .. }
        | ExplainError::Pod(_)
        | ExplainError::Capture(_)
        | ExplainError::Address(_)
        | ExplainError::Packet(_) => Exit::Usage,
        _ => Exit::Failure,
    }
}

fn show(world: &mut World<'_>, explanation: &Explanation, matches: &ArgMatches) -> Exit {
    let text = match matches.get_one::<String>("output").map(String::as_str) {
        Some("json") => format!("{:#}\n", json::write(explanation)),
        _ => text::lines(&human::write(explanation)).into_owned(),
    };
    if world.stdout.write_all(text.as_bytes()).is_err() {
        return Exit::Failure;
    }
    match explanation.decision {
        Decision::Refused(_) => Exit::Failure,
        Decision::Skipped(_) | Decision::Redirected(_) => Exit::Success,
    }
}

/// Upstream's release notes promise another thing than its rules do, and ours are its.
const DNS_AND_RANGES: &str = "excluded ranges do not exempt DNS: port 53 of an address in them goes to port 15053 as well; excluding port 53 does exempt it";

impl Plan {
    fn new(
        config: Config,
        settings: Vec<Setting>,
        (addresses, network): (Vec<IpAddr>, Network),
    ) -> Result<Self, ConfigError> {
        let ruleset = generate::ruleset(&config)?;
        let dns = config.dns.is_on() && !config.outbound_ranges_exclude.is_empty();
        Ok(Self {
            config,
            addresses,
            network,
            notes: dns.then(|| DNS_AND_RANGES.to_owned()).into_iter().collect(),
            settings,
            ruleset,
            packets: Vec::new(),
            captured: None,
        })
    }

    fn ask(&mut self, text: &str) -> Result<(), packet::PacketError> {
        let packet = packet::read(text, &self.addresses)?;
        let verdict = verdict(&self.ruleset, &packet);
        let mut asked = Query { text: text.to_owned(), packet, verdict, captured: None };
        asked.captured = self.captured.as_ref().map(|captured| captured.judge(&asked));
        self.packets.push(asked);
        Ok(())
    }
}

/// Chains in the kernel's form.
fn chains(ruleset: &Ruleset) -> Vec<(Listing, Vec<ChainRules<'_>>)> {
    match ruleset.dialect {
        Dialect::Nft => vec![(Listing::Inet, ruleset.inet_chains())],
        Dialect::Iptables => {
            ruleset.families().map(|family| (Listing::Of(family), ruleset.chains(family))).collect()
        }
    }
}
