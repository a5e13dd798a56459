// SPDX-License-Identifier: Apache-2.0
//! Rules of the native dialect leave what nft leaves of the same rules as text.

use std::sync::atomic::{AtomicUsize, Ordering};

use netfilter::describe::describe;
use netfilter::snapshot::Snapshot;
use netfilter::{Applied, apply, compare, read};
use redirect::ruleset::{Dialect, Ruleset};
use redirect::text;
use serde_json::Value;

use crate::parity::{equal, recorded, shape};
use crate::world::World;
use crate::{Case, Needs, commands, random, restore, rules, tools};

/// Number of namespaces of ours compared with one of nft's.
pub(crate) static COMPARISONS: AtomicUsize = AtomicUsize::new(0);

pub(crate) const CASES: &[Case] = &[
    Case("ordinary_native_rules_equal_those_of_nft", Needs::Tools, |world| {
        for (name, ruleset) in rules::all_native() {
            generated(world, name, &world.allow(ruleset));
        }
    }),
    // nft sends them at once, which takes a buffer that only root of the machine may ask for.
    Case("native_edge_forms_equal_those_of_nft", Needs::ToolsAndUsers, |world| {
        for ruleset in rules::native_edges() {
            generated(world, "edges", &ruleset);
        }
    }),
    Case("recorded_configurations_equal_those_of_nft", Needs::ToolsAndUsers, |world| {
        for (file, count) in [("cases.json", 17), ("random.json", 100)] {
            for case in recorded(file, count) {
                corpus(world, &case);
            }
        }
    }),
    Case("random_configurations_equal_those_of_nft", Needs::ToolsAndUsers, |world| {
        for (name, ruleset) in random::configurations(Dialect::Nft) {
            generated(world, &name, &ruleset);
        }
    }),
    Case("other_versions_of_nft_list_the_sets_that_we_make", Needs::Tools, |world| {
        for (name, ruleset) in rules::all_native() {
            world.fresh(|| {
                assert_eq!(apply(&world.allow(ruleset)).unwrap(), Applied::Created, "{name}");
                // Versions differ in what else of a rule they spell out.
                let sets = |rules: Vec<String>| -> Vec<String> {
                    let set = |rule: String| Some(rule[rule.find(" dport ")?..=rule.find('}')?].to_owned());
                    rules
                        .into_iter()
                        .filter(|rule| rule.contains("{ "))
                        .map(|rule| set(rule).unwrap())
                        .collect()
                };
                let wanted = sets(tools::listed_rules());
                LISTED_SETS.fetch_add(wanted.len(), Ordering::Relaxed);
                for other in tools::others() {
                    let listed = sets(tools::rules_listed_by(&other));
                    equal(&format!("{name}: sets, as {} lists them", other.display()), &listed, &wanted);
                }
            });
        }
        assert!(LISTED_SETS.load(Ordering::Relaxed) > 0, "no rule had a set");
    }),
];

/// Number of listed rules with sets.
static LISTED_SETS: AtomicUsize = AtomicUsize::new(0);

/// Everything that can be seen of a namespace.
struct Seen {
    listing: Value,
    raw: Vec<String>,
}

fn look() -> Seen {
    let snapshot = read().unwrap();
    equal("rules as we spell them, and as nft does", &spelled(&snapshot), &tools::listed_rules());
    Seen { listing: tools::listing(), raw: shape(&snapshot) }
}

fn spelled(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for table in &snapshot.tables {
        for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
            lines.push(describe(table.family, &rule.expressions));
        }
    }
    lines
}

/// Ours in one namespace, commands through nft in another.
fn same(world: World, name: &str, ruleset: &Ruleset, commands: &str) {
    let ours = world.fresh(|| {
        assert_eq!(apply(ruleset).unwrap(), Applied::Created, "{name}");
        let held = read().unwrap();
        assert_eq!(compare(&held, ruleset), [], "{name}");
        assert_eq!(apply(ruleset).unwrap(), Applied::Unchanged, "{name}");
        look()
    });
    let theirs = world.fresh(|| {
        tools::nft(commands);
        assert_eq!(compare(&read().unwrap(), ruleset), [], "{name}, by nft");
        assert_eq!(apply(ruleset).unwrap(), Applied::Unchanged, "{name}, by nft");
        look()
    });
    equal(&format!("{name}: what the kernel holds, ours and nft's"), &ours.raw, &theirs.raw);
    assert_eq!(ours.listing, theirs.listing, "{name}: nft's listing of ours and of its own");
    assert!(!ours.raw.is_empty(), "{name}: nothing was compared");
    COMPARISONS.fetch_add(1, Ordering::Relaxed);
}

fn generated(world: World, name: &str, ruleset: &Ruleset) {
    same(world, name, ruleset, &quoted(&text::native(ruleset)));
}

/// Commands with quotes where nft needs them. Upstream writes the names of interfaces without, and so does text; a name with the sign
/// that iptables has for a prefix is then refused, or one with a star that begins with a digit.
fn quoted(commands: &str) -> String {
    let word = |word: &str| if word.contains(['+', '*']) { format!("\"{word}\"") } else { word.to_owned() };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n";
    commands.lines().map(line).collect()
}

/// A recorded case: its commands go to nft as they are, and through a reader of their own to us.
fn corpus(world: World, case: &Value) {
    let name = case["name"].as_str().unwrap();
    let commands: Vec<_> =
        case["nft"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let commands: Vec<_> =
        commands.into_iter().map(|line| restore::with_known_groups(line, "skgid")).collect();
    let ruleset = commands::ruleset(commands.iter().map(String::as_str));
    same(world, name, &ruleset, &(commands.join("\n") + "\n"));
}
