// SPDX-License-Identifier: Apache-2.0
//! Rules of random configurations, the same in each run.

#[path = "../../../redirect/tests/properties/configs.rs"]
mod configs;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use redirect::config::Config;
use redirect::generate::ruleset;
use redirect::ruleset::{Dialect, Id, Match, Owner, Ruleset};

const COUNT: usize = 200;

/// A number for groups that are named: names are nobody's here.
const NAMED: u32 = 60_001;

/// The rules of random configurations, with a name for each.
pub(crate) fn configurations(dialect: Dialect) -> impl Iterator<Item = (String, Ruleset)> {
    let mut runner = TestRunner::deterministic();
    let config = configs::config();
    (0..COUNT).map(move |index| {
        let config = Config { dialect, ..config.new_tree(&mut runner).unwrap().current() };
        let mut ruleset = ruleset(&config).unwrap();
        ruleset.rules.iter_mut().flat_map(|rule| &mut rule.matches).for_each(number);
        (format!("random {index}: {config:?}"), ruleset)
    })
}

fn number(condition: &mut Match) {
    if let Match::Owner(_, Owner::Uid(id) | Owner::Gid(id)) = condition
        && matches!(id, Id::Name(_))
    {
        *id = Id::Number(NAMED);
    }
}
