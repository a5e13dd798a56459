// SPDX-License-Identifier: Apache-2.0
//! The table against the kernel, as the library writes its configurations, over every back end. Beside that the table is shown to be able
//! to fail: whoever writes is told another configuration than whoever judges.
//!
//! The third judge are fates that were recorded with rules of upstream: `ci/peer/build`, then, as root with the iptables tools,
//! `RECORD_FATES_OF=target/peer/istio-iptables cargo test -p cnilab -p truth --test kernel` records them anew.
//!
//! `[TRUTH_CASE=PART OF A NAME] [TRUTH_PACKETS=60] [TRUTH_SEED=7] cargo test -p cnilab -p truth --test kernel [BACK END]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;

use anyhow::Context as _;
use netfilter::Backend;
use netfilter::iptables::{Variant, is_installed};
use nix::sched::CloneFlags;
use redirect::Config;
use redirect::list::Selection;
use redirect::ruleset::Port;
use rig::rights;
use truth::data::Case;
use truth::{CommandLine, Fates, Findings, Judge, Library, Plan, Refusal, Writer, data, run};

/// Results of the tables. They are printed last: libtest's dots would stand in the same lines.
static JUDGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A writer that is told something else, and what the table must say of it.
struct Control {
    name: &'static str,
    mislead: fn(Config) -> Config,
    is_found: fn(&Findings) -> bool,
}

const CONTROLS: [Control; 2] = [
    Control {
        name: "no inbound exclusion",
        mislead: |config| Config { inbound_ports_exclude: Vec::new(), ..config },
        is_found: |findings| !findings.astray.is_empty(),
    },
    Control {
        name: "one more excluded interface",
        mislead: |config| Config { exclude_interfaces: vec!["nowhere0".into()], ..config },
        // No packet comes by that interface, so nothing but the rules and their counters can tell.
        is_found: |findings| findings.astray.is_empty() && !findings.disagreements.is_empty(),
    },
];

/// The back ends that write without a tool.
const NETLINK: [Backend; 2] = [Backend::NftCompat, Backend::Nft];

/// Plays each control, and the same configuration with a writer that is told the truth.
fn controls(backend: Backend) -> anyhow::Result<()> {
    let config = Config {
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: vec![Port::One(8080)],
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    let cases = vec![Case { name: "control".to_owned(), config }];
    let play = |writer: Library| {
        let (writer, cases) = (Box::new(writer), cases.clone());
        run(&Plan {
            writer,
            backend,
            cases,
            packets: 60,
            lanes: 1,
            seed: 7,
            enough: usize::MAX,
            judge: Judge::Evaluator,
        })
    };
    let honest = play(Library::HONEST)?;
    anyhow::ensure!(honest.wrong() == 0, "{honest}");
    for Control { name, mislead, is_found } in CONTROLS {
        let findings = play(Library { mislead })?;
        anyhow::ensure!(is_found(&findings), "a writer of {name} was not found out: {findings:?}");
    }
    Ok(())
}

/// The table on a back end, or as much of it as the environment asks for.
fn table(backend: Backend) -> anyhow::Result<()> {
    let given = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let part = given("TRUTH_CASE", "");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let table = data::read(&scenarios)?;
    let mut cases = table.cases.clone();
    cases.retain(|case| case.name.contains(&part));
    // A part of the configurations does not have every kind of rule.
    let gaps = |findings: &Findings| match part.as_str() {
        "" => findings.gaps(&table.unreachable_in(&table.cases)),
        _ => Vec::new(),
    };
    let packets = given("TRUTH_PACKETS", "60").parse()?;
    let seed = u64::from_str_radix(&given("TRUTH_SEED", "7"), 16)?;
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let writer = Box::new(Library::HONEST);
    let findings = run(&Plan {
        writer,
        backend,
        cases,
        packets,
        lanes,
        seed,
        enough: usize::MAX,
        judge: Judge::Evaluator,
    })?;
    let wrong = findings.astray.iter().chain(&findings.disagreements).take(10).cloned();
    let wrong: Vec<String> = wrong.chain(gaps(&findings)).collect();
    JUDGED.lock().unwrap().push(findings.to_string());
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Recorded fates, with the library's rules.
fn recorded(backend: Backend) -> anyhow::Result<()> {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let (cases, judge) = (data::read(&scenarios)?.cases, Judge::Recorded(Fates::read(&scenarios)?));
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let writer = Box::new(Library::HONEST);
    let findings =
        run(&Plan { writer, backend, cases, packets: 0, lanes, seed: 7, enough: usize::MAX, judge })?;
    JUDGED
        .lock()
        .unwrap()
        .push(format!("recorded fates, {backend}: {} packets over {} pods", findings.packets, findings.pods));
    let wrong: Vec<_> = findings.astray.iter().take(10).cloned().collect();
    anyhow::ensure!(
        wrong.is_empty(),
        "{} packets have another fate:\n{}",
        findings.astray.len(),
        wrong.join("\n")
    );
    Ok(())
}

/// Upstream's `istio-iptables`, which chooses its back end itself.
#[derive(Debug)]
struct Upstream(PathBuf);

impl Writer for Upstream {
    fn can_ask_for(&self, config: &Config) -> bool {
        CommandLine::of(config).is_some_and(|line| line.resolvers.is_empty())
    }

    fn knows_names(&self) -> bool {
        true
    }

    fn program(&self, _: &str, config: &Config, _: Backend) -> anyhow::Result<Result<(), Refusal>> {
        let line = CommandLine::of(config).context("no command line asks for it")?;
        let mut command = Command::new(&self.0);
        command.args(line.arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let output = command.envs(line.environment).output()?;
        Ok(if output.status.success() {
            Ok(())
        } else {
            let said = [output.stdout, output.stderr].concat();
            Err(Refusal(String::from_utf8_lossy(&said).trim().to_owned()))
        })
    }
}

/// Records fates with the tool at this path.
fn record(tool: PathBuf) -> anyhow::Result<()> {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let (all, writer) = (data::read(&scenarios)?.cases, Box::new(Upstream(tool)));
    // Those of hand and of a corpus may have the same name.
    let is_unique = |case: &&Case| all.iter().filter(|other| other.name == case.name).count() == 1;
    let cases = all.iter().filter(is_unique).cloned().collect();
    let (backend, judge) = (Backend::NftCompat, Judge::Nobody);
    let plan =
        Plan { writer, backend, cases, packets: 16, lanes: 4, seed: 7, enough: usize::MAX, judge }.possible();
    let findings = run(&plan)?;
    for refused in &findings.astray {
        println!("not recorded: {refused}");
    }
    let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/peer/go.mod");
    let required = std::fs::read_to_string(go)?;
    let version = required
        .lines()
        .find_map(|line| line.trim().strip_prefix("istio.io/istio "))
        .context("no version")?;
    let of = format!("istio-iptables of istio.io/istio {version}");
    Fates { of, configurations: findings.fates }.write(&scenarios)
}

/// The tool that a back end needs and that is not there.
fn lacking(backend: Backend) -> Option<String> {
    let variant = match backend {
        Backend::NftCompat | Backend::Nft => return None,
        Backend::IptablesNft => Variant::Nft,
        Backend::IptablesLegacy => Variant::Legacy,
    };
    (!is_installed(variant)).then(|| format!("needs {backend}-restore"))
}

fn main() -> ExitCode {
    let unmet = rights::acquire(CloneFlags::CLONE_NEWNET).unmet_users();
    let controls = NETLINK.map(|backend| {
        let name = format!("another_configuration_than_the_judges_is_found_out_on_{backend}");
        rig::test(&name, unmet.clone(), move || controls(backend).unwrap())
    });
    let tables = Backend::ALL.map(|backend| {
        let name = format!("packets_take_the_ways_that_the_table_says_on_{backend}");
        rig::test(&name, unmet.clone().or_else(|| lacking(backend)), move || table(backend).unwrap())
    });
    if let Some(tool) = std::env::var_os("RECORD_FATES_OF") {
        return match record(tool.into()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let fates = NETLINK.map(|backend| {
        let name = format!("packets_have_the_fates_that_they_have_with_rules_of_upstream_on_{backend}");
        rig::test(&name, unmet.clone(), move || recorded(backend).unwrap())
    });
    let code = rig::run(controls.into_iter().chain(tables).chain(fates));
    JUDGED.lock().unwrap().iter().for_each(|judged| println!("{judged}"));
    code
}
