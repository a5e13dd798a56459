// SPDX-License-Identifier: Apache-2.0
//! A few configurations of the table against the kernel, without a lab around it: what a change of the engine is tried with. Before
//! them the table is shown to be able to fail: whoever writes is told another configuration than whoever judges.
//!
//! `[TRUTH_BACKEND=nft-compat] [TRUTH_CASE=PART OF A NAME] [TRUTH_PACKETS=60] [TRUTH_SEED=7] cargo test -p truth --test kernel`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

use std::path::Path;
use std::process::ExitCode;

use netfilter::{Backend, Wish};
use nix::sched::CloneFlags;
use redirect::Config;
use redirect::list::Selection;
use redirect::ruleset::Port;
use rig::rights;
use truth::data::{Author, Case};
use truth::{Findings, Plan, Writer, data, run};

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
    let cases = vec![Case { name: "control".to_owned(), config, author: Author::Hand }];
    let play = |writer| {
        let cases = cases.clone();
        run(&Plan { writer, backend, cases, packets: 60, lanes: 1, seed: 7, enough: usize::MAX })
    };
    let honest = play(Writer::Library)?;
    anyhow::ensure!(honest.wrong() == 0, "{honest}");
    for Control { name, mislead, is_found } in CONTROLS {
        let findings = play(Writer::Misled(mislead))?;
        anyhow::ensure!(is_found(&findings), "a writer of {name} was not found out: {findings:?}");
    }
    Ok(())
}

/// The table, or as much of it as the environment asks for.
fn table() -> anyhow::Result<()> {
    let given = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let Wish::Only(backend) = given("TRUTH_BACKEND", "nft-compat").parse().unwrap() else {
        panic!("name a back end")
    };
    let part = given("TRUTH_CASE", "");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let data::Table { mut cases, unreachable } = data::read(&scenarios)?;
    cases.retain(|case| case.name.contains(&part));
    let packets = given("TRUTH_PACKETS", "60").parse()?;
    let seed = u32::from_str_radix(&given("TRUTH_SEED", "7"), 16)?;
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let findings =
        run(&Plan { writer: Writer::Library, backend, cases, packets, lanes, seed, enough: usize::MAX })?;
    for text in findings.astray.iter().chain(&findings.disagreements).take(10) {
        println!("{text}");
    }
    if part.is_empty() {
        findings.gaps(&unreachable).iter().for_each(|gap| println!("{gap}"));
    }
    println!("{findings}");
    anyhow::ensure!(findings.wrong() == 0, "{findings}");
    Ok(())
}

fn main() -> ExitCode {
    let unmet = rights::acquire(CloneFlags::CLONE_NEWNET).unmet_users();
    let controls = NETLINK.map(|backend| {
        let name = format!("another_configuration_than_the_judges_is_found_out_on_{backend}");
        rig::test(&name, unmet.clone(), move || controls(backend).unwrap())
    });
    let table = rig::test("packets_take_the_ways_that_the_table_says", unmet, || table().unwrap());
    rig::run(controls.into_iter().chain([table]))
}
