// SPDX-License-Identifier: Apache-2.0
//! The table against the kernel, as the library writes its configurations, over every back end. Beside that the table is shown to be able
//! to fail: whoever writes is told another configuration than whoever judges.
//!
//! `[TRUTH_CASE=PART OF A NAME] [TRUTH_PACKETS=60] [TRUTH_SEED=7] cargo test -p cnilab -p truth --test kernel [BACK END]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use netfilter::Backend;
use netfilter::iptables::{Variant, is_installed};
use nix::sched::CloneFlags;
use redirect::Config;
use redirect::list::Selection;
use redirect::ruleset::Port;
use rig::rights;
use truth::data::Case;
use truth::{Findings, Library, Plan, data, run};

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
        run(&Plan { writer, backend, cases, packets: 60, lanes: 1, seed: 7, enough: usize::MAX })
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
    let seed = u32::from_str_radix(&given("TRUTH_SEED", "7"), 16)?;
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let writer = Box::new(Library::HONEST);
    let findings = run(&Plan { writer, backend, cases, packets, lanes, seed, enough: usize::MAX })?;
    let wrong = findings.astray.iter().chain(&findings.disagreements).take(10).cloned();
    let wrong: Vec<String> = wrong.chain(gaps(&findings)).collect();
    JUDGED.lock().unwrap().push(findings.to_string());
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
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
    let code = rig::run(controls.into_iter().chain(tables));
    JUDGED.lock().unwrap().iter().for_each(|judged| println!("{judged}"));
    code
}
