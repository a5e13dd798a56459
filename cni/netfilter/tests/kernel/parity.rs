// SPDX-License-Identifier: Apache-2.0
//! Our rules equal those of iptables-nft-restore, by every way of looking at them.

use std::sync::atomic::{AtomicUsize, Ordering};

use netfilter::describe::describe;
use netfilter::snapshot::{NfFamily, Snapshot};
use netfilter::{Applied, apply, read};
use redirect::ruleset::{Dialect, Family, Ruleset, Table};
use redirect::text;
use serde_json::Value;

use crate::world::World;
use crate::{Case, Needs, random, restore, rules, tools};

/// Number of namespaces of ours compared with one of iptables'.
pub(crate) static COMPARISONS: AtomicUsize = AtomicUsize::new(0);

pub(crate) const CASES: &[Case] = &[
    Case("ordinary_rules_equal_those_of_iptables", Needs::Tools, |world| {
        for (name, ruleset) in rules::all() {
            generated(world, name, &world.allow(ruleset));
        }
    }),
    Case("edge_forms_equal_those_of_iptables", Needs::Tools, |world| {
        for ruleset in rules::edges() {
            generated(world, "edges", &ruleset);
        }
    }),
    Case("recorded_configurations_equal_those_of_iptables", Needs::ToolsAndUsers, |world| {
        corpus(world, "cases.json", 17);
        corpus(world, "random.json", 100);
    }),
    Case("random_configurations_equal_those_of_iptables", Needs::ToolsAndUsers, |world| {
        for (name, ruleset) in random::configurations(Dialect::Iptables) {
            generated(world, &name, &ruleset);
        }
    }),
    Case("the_real_tool_works_on_our_rules", Needs::Tools, the_real_tool_works),
];

/// Everything that can be seen of a namespace.
#[derive(Debug, PartialEq)]
struct Seen {
    v4: Vec<String>,
    v6: Vec<String>,
    listing: Value,
    raw: Vec<String>,
}

fn look() -> Seen {
    let snapshot = read().unwrap();
    let (v4, v6) = (tools::save(Family::V4), tools::save(Family::V6));
    equal("rules as we spell them, and as iptables does", &spelled(&snapshot, NfFamily::Ip), &added(&v4));
    equal("rules as we spell them, and as ip6tables does", &spelled(&snapshot, NfFamily::Ip6), &added(&v6));
    Seen { v4, v6, listing: tools::listing(), raw: shape(&snapshot) }
}

/// Compares lists and shows the first lines that differ.
pub(crate) fn equal(what: &str, one: &[String], other: &[String]) {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let (left, right) = (one.get(at), other.get(at));
    assert!(left == right, "{what}: line {}\n  one:   {left:?}\n  other: {right:?}", at + 1);
}

/// A snapshot without handles and generation.
pub(crate) fn shape(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for table in &snapshot.tables {
        lines.push(format!("table {} {} flags {}", table.family, table.name, table.flags));
        for chain in &table.chains {
            lines.push(format!("chain {} {:?}", chain.name, chain.base));
            for rule in &chain.rules {
                lines.push(format!("{:02x?} {:02x?} {:?}", rule.expressions, rule.userdata, rule.counter));
            }
        }
    }
    lines
}

/// Rules as `iptables -S` would have them by our own spelling, sorted: iptables-save sorts chains.
fn spelled(snapshot: &Snapshot, family: NfFamily) -> Vec<String> {
    let tables = snapshot.tables.iter().filter(|table| table.family == family);
    let mut lines: Vec<_> = tables
        .flat_map(|table| &table.chains)
        .flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)))
        .map(|(chain, rule)| format!("-A {} {}", chain.name, describe(family, &rule.expressions)))
        .collect();
    lines.sort();
    lines
}

fn added(save: &[String]) -> Vec<String> {
    let mut lines: Vec<_> = save.iter().filter(|line| line.starts_with("-A")).cloned().collect();
    lines.sort();
    lines
}

/// Ours in one namespace, text through iptables in another.
fn same(world: World, name: &str, ruleset: &Ruleset, texts: &[String; 2]) {
    let ours = world.fresh(|| {
        assert_eq!(apply(ruleset).unwrap(), Applied::Created, "{name}");
        look()
    });
    let theirs = world.fresh(|| {
        for (family, text) in [Family::V4, Family::V6].into_iter().zip(texts) {
            tools::restore(family, text).unwrap();
        }
        look()
    });
    equal(&format!("{name}: iptables-save of ours and of iptables'"), &ours.v4, &theirs.v4);
    equal(&format!("{name}: ip6tables-save of ours and of iptables'"), &ours.v6, &theirs.v6);
    equal(&format!("{name}: what the kernel holds, ours and iptables'"), &ours.raw, &theirs.raw);
    assert_eq!(ours.listing, theirs.listing, "{name}: nft's listing of ours and of iptables'");
    assert!(!ours.raw.is_empty(), "{name}: nothing was compared");
    COMPARISONS.fetch_add(1, Ordering::Relaxed);
}

fn generated(world: World, name: &str, ruleset: &Ruleset) {
    let texts = [Family::V4, Family::V6].map(|family| {
        if family == Family::V6 && !ruleset.ipv6 { String::new() } else { text::restore(ruleset, family) }
    });
    same(world, name, ruleset, &texts);
}

/// Recorded cases.
pub(crate) fn recorded(file: &str, count: usize) -> Vec<Value> {
    let path = format!("{}/../../scenarios/rules/{file}", env!("CARGO_MANIFEST_DIR"));
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(cases.len(), count, "{file}");
    cases
}

/// Recorded cases: their lines go to iptables as they are, and through a reader of their own to us.
fn corpus(world: World, file: &str, count: usize) {
    for case in &recorded(file, count) {
        let name = case["name"].as_str().unwrap();
        let mut ruleset =
            Ruleset { dialect: Dialect::Iptables, ipv6: !case["ipv6"].is_null(), rules: Vec::new() };
        let mut texts = [String::new(), String::new()];
        for (family, text) in [Family::V4, Family::V6].into_iter().zip(&mut texts) {
            let key = if family == Family::V4 { "ipv4" } else { "ipv6" };
            for table in Table::ALL {
                let Some(lines) = case[key][table.name()].as_array() else { continue };
                let lines: Vec<_> = lines
                    .iter()
                    .map(|line| restore::with_known_groups(line.as_str().unwrap(), "--gid-owner"))
                    .collect();
                ruleset.rules.extend(restore::rules(family, table, lines.iter().map(String::as_str)));
                *text += &format!("*{}\n{}\nCOMMIT\n", table.name(), lines.join("\n"));
            }
        }
        same(world, name, &ruleset, &texts);
    }
}

fn the_real_tool_works(world: World) {
    let ruleset = world.allow(rules::everything());
    world.fresh(|| {
        apply(&ruleset).unwrap();
        for family in ruleset.families() {
            for table in Table::ALL {
                each_rule_can_be_deleted(&ruleset, family, table);
            }
        }
        let left: usize = read().unwrap().tables.iter().map(|table| table.chains.len()).sum();
        assert_eq!(left, 2 * 6, "built-in chains of nat, mangle and raw in both families");
    });
}

fn each_rule_can_be_deleted(ruleset: &Ruleset, family: Family, table: Table) {
    let name = table.name();
    let iptables = |arguments: String| tools::iptables(family, &format!("-t {name} {arguments}"));
    for rule in ruleset.rules_of(family, table) {
        let rule = format!("{} {}", rule.chain.name(), text::rule(ruleset.dialect, rule));
        iptables(format!("-C {rule}")).unwrap();
        iptables(format!("-D {rule}")).unwrap();
        // Only a second rule of the same words may still be there.
        let _gone = iptables(format!("-C {rule}"));
    }
    for chain in ruleset.chains(family).iter().filter(|chain| chain.table == table) {
        iptables(format!("-F {}", chain.chain.name())).unwrap();
    }
    for chain in ruleset.chains(family).iter().filter(|chain| chain.table == table) {
        if !chain.chain.is_builtin() {
            iptables(format!("-X {}", chain.chain.name())).unwrap();
        }
    }
}
