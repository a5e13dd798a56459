// SPDX-License-Identifier: Apache-2.0
//! More rules than anybody means: a pod that may change its rules makes them, and others pay for the reading.

use std::fmt::Write as _;
use std::time::Instant;

use netfilter::{ReadError, read};

use crate::world::World;
use crate::{Case, Needs, tools};

pub(crate) const CASES: &[Case] = &[
    Case("a_rule_in_each_of_many_chains_and_tables_is_read", Needs::Tools, one_each),
    Case("more_rules_than_are_read_are_refused_soon", Needs::Tools, too_many),
];

/// A table with so many chains, each with this in it.
fn table(chains: usize, rule: &str) -> String {
    let chains = (0..chains).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "chain c{number} {{\n{rule}\n}}");
        text
    });
    format!("table ip many {{\n{chains}}}\n")
}

fn one_each(world: World) {
    world.fresh(|| {
        let mut script = table(24_000, "counter");
        for number in 0..2_000 {
            let _ = writeln!(script, "table inet t{number} {{\nchain c {{\ncounter\n}}\n}}");
        }
        tools::nft(&script);
        let began = Instant::now();
        let held = read().unwrap();
        println!("read after {:.1?}", began.elapsed());
        let chains: Vec<_> = held.tables.iter().flat_map(|table| &table.chains).collect();
        assert_eq!((held.tables.len(), chains.len()), (2_001, 26_000));
        assert!(chains.iter().all(|chain| chain.rules.len() == 1));
    });
}

fn too_many(world: World) {
    world.fresh(|| {
        let rules = "counter\n".repeat(30_000);
        tools::nft(&format!("{}table ip many {{\nchain last {{\n{rules}}}\n}}\n", table(40_000, "")));
        let began = Instant::now();
        assert!(matches!(read(), Err(ReadError::TooMany)));
        println!("refused after {:.1?}", began.elapsed());
    });
}
