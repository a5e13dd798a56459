// SPDX-License-Identifier: Apache-2.0
//! A few configurations of the table against the kernel, without a lab around it: what a change of the engine is tried with.
//!
//! `cargo test -p truth --test kernel [BACK END [PART OF A NAME [PACKETS [SEED]]]]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

use std::path::Path;
use std::process::ExitCode;

use netfilter::Wish;
use truth::{Plan, Writer, data, run};

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let given = |at: usize, default: &str| given.get(at).cloned().unwrap_or_else(|| default.to_owned());
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
