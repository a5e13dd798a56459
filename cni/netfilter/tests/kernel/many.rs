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

fn one_each(world: World) {
    world.fresh(|| {
        let mut script = String::from("table ip many {\n");
        for number in 0..24_000 {
            let _ = writeln!(script, "chain c{number} {{\ncounter\n}}");
        }
        script.push_str("}\n");
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
        let mut script = String::from("table ip many {\n");
        for number in 0..40_000 {
            let _ = writeln!(script, "chain c{number} {{\n}}");
        }
        script.push_str("chain last {\n");
        for _ in 0..30_000 {
            script.push_str("counter\n");
        }
        script.push_str("}\n}\n");
        tools::nft(&script);
        let began = Instant::now();
        assert!(matches!(read(), Err(ReadError::TooMany)));
        println!("refused after {:.1?}", began.elapsed());
    });
}
