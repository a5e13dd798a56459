// SPDX-License-Identifier: Apache-2.0
//! Rules of random configurations, the same in each run.

#[path = "../../../redirect/tests/properties/configs.rs"]
mod configs;
#[path = "../../../redirect/tests/properties/former.rs"]
mod former;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use redirect::config::Config;
use redirect::generate::ruleset;
use redirect::list::Selection;
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

/// Random configurations in the iptables dialect, and what upstream 1.20 to 1.24 wrote for each. Without interfaces, which a listing of legacy
/// rules does not tell from those that others exclude, and without names, which netlink does not have.
pub(crate) fn former_configurations(count: usize) -> impl Iterator<Item = (Config, Ruleset)> {
    let mut runner = TestRunner::deterministic();
    let configs = configs::iptables_config();
    let random = move || configs.new_tree(&mut runner).unwrap().current();
    let is_usual = |config: &Config| {
        let included = match &config.owner_groups_include {
            Selection::All => &[],
            Selection::List(list) => list.as_slice(),
        };
        let mut groups = config.owner_groups_exclude.iter().chain(included);
        let has_proxy = !config.proxy_uids.is_empty() && !config.proxy_gids.is_empty();
        has_proxy && groups.all(|id| matches!(id, Id::Number(_)))
    };
    std::iter::repeat_with(random).filter(is_usual).take(count).map(|config| {
        let config = Config { exclude_interfaces: Vec::new(), virtual_interfaces: Vec::new(), ..config };
        let former = former::former(&config);
        (config, former)
    })
}

fn number(condition: &mut Match) {
    if let Match::Owner(_, Owner::Uid(id) | Owner::Gid(id)) = condition
        && matches!(id, Id::Name(_))
    {
        *id = Id::Number(NAMED);
    }
}
