// SPDX-License-Identifier: Apache-2.0
//! A few configurations of the table against the kernel, without a lab around it: what a change of the engine is tried with. Before
//! them the table is shown to be able to fail: whoever writes is told another configuration than whoever judges.
//!
//! `cargo test -p truth --test kernel [BACK END [PART OF A NAME [PACKETS [SEED]]]]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

use std::path::Path;
use std::process::ExitCode;

use netfilter::{Backend, Wish};
use redirect::Config;
use redirect::list::Selection;
use redirect::ruleset::Port;
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
fn controls() -> anyhow::Result<()> {
    let config = Config {
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: vec![Port::One(8080)],
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    let cases = vec![Case { name: "control".to_owned(), config, author: Author::Hand }];
    for backend in NETLINK {
        let play = |writer| {
            let cases = cases.clone();
            run(&Plan { writer, backend, cases, packets: 60, lanes: 1, seed: 7, enough: usize::MAX })
        };
        let honest = play(Writer::Library)?;
        anyhow::ensure!(honest.wrong() == 0, "{backend}: {honest}");
        for Control { name, mislead, is_found } in CONTROLS {
            let findings = play(Writer::Misled(mislead))?;
            anyhow::ensure!(
                is_found(&findings),
                "{backend}: a writer of {name} was not found out: {findings:?}"
            );
            println!("{backend}: a writer of {name} is found out");
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let given = |at: usize, default: &str| given.get(at).cloned().unwrap_or_else(|| default.to_owned());
    if let Err(error) = controls() {
        println!("{error:#}");
        return ExitCode::FAILURE;
    }
    let Wish::Only(backend) = given(0, "nft-compat").parse().unwrap() else { panic!("name a back end") };
    let part = given(1, "");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let data::Table { mut cases, unreachable } = data::read(&scenarios).unwrap();
    cases.retain(|case| case.name.contains(&part));
    let packets = given(2, "60").parse().unwrap();
    let seed = u32::from_str_radix(&given(3, "7"), 16).unwrap();
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan { writer: Writer::Library, backend, cases, packets, lanes, seed, enough: usize::MAX };
    let findings = match run(&plan) {
        Ok(findings) => findings,
        Err(error) => {
            println!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    for text in findings.astray.iter().chain(&findings.disagreements).take(10) {
        println!("{text}");
    }
    if part.is_empty() {
        findings.gaps(&unreachable).iter().for_each(|gap| println!("{gap}"));
    }
    println!("{findings}");
    if findings.wrong() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
