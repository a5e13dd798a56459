// SPDX-License-Identifier: Apache-2.0
//! `--randomize-names`: names of pods and nodes, addresses and paths of a run, drawn by its seed. A product that behaves well where it finds the
//! lab's own `cart`, `node-1` or `10.200.1.2`, and nowhere else, does not find them.

use std::collections::BTreeSet;

use cluster::DAEMONSET;
use cucumber::gherkin::{Feature, Step};
use sha2::{Digest as _, Sha256};

/// What introduces the name of a pod in a step.
const INTRODUCTIONS: [&str; 2] = ["pod \"", "pods \""];

/// How steps call the nodes of a cluster.
const NODES: std::ops::RangeInclusive<u8> = 1..=9;

/// Second parts of addresses that nothing else of the lab has, nor a usual cluster's services.
const NETWORKS: std::ops::Range<u8> = 100..240;

/// Names that follow from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    seed: u64,
}

impl Drawn {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    fn draw(self, of: &str) -> [u8; 32] {
        Sha256::digest(format!("{:x} {of}", self.seed)).into()
    }

    /// Eight letters.
    #[must_use]
    pub fn word(self, of: &str) -> String {
        self.draw(of).iter().take(8).map(|byte| char::from(b'a' + byte % 26)).collect()
    }

    /// Second parts of the pods' addresses, and of those in a second network.
    #[must_use]
    pub fn networks(self) -> (u8, u8) {
        let mut networks = BTreeSet::new();
        for round in 0..u8::MAX {
            let number = self.draw(&format!("network {round}"))[0];
            if networks.len() < 2 && NETWORKS.contains(&number) {
                networks.insert(number);
            }
        }
        let mut networks = networks.into_iter();
        let mut next = || networks.next().unwrap_or_default();
        (next(), next())
    }

    /// Gives the pods and nodes that steps name other names.
    pub fn rename(self, feature: &mut Feature) {
        let background = feature.background.iter_mut().flat_map(|background| &mut background.steps);
        let own = feature.scenarios.iter_mut().flat_map(|scenario| &mut scenario.steps);
        let mut steps: Vec<&mut Step> = background.chain(own).collect();
        let mut names: BTreeSet<String> = steps.iter().flat_map(|step| introduced(&step.value)).collect();
        names.extend(NODES.map(|number| format!("node-{number}")));
        for step in &mut steps {
            step.value = self.renamed(&step.value, &names);
            step.docstring = step.docstring.take().map(|text| self.renamed(&text, &names));
            for cell in step.table.iter_mut().flat_map(|table| table.rows.iter_mut().flatten()) {
                *cell = if names.contains(cell) { self.name(cell) } else { self.renamed(cell, &names) };
            }
        }
    }

    /// The name that another one becomes.
    #[must_use]
    pub fn name(self, of: &str) -> String {
        match of.strip_prefix("node-") {
            Some(number) => format!("{}-{number}", self.word("node")),
            None => self.word(of),
        }
    }

    /// With another name wherever one of these is quoted, alone or in a list, and in placeholders of addresses (`{outside}`).
    fn renamed(self, text: &str, names: &BTreeSet<String>) -> String {
        let mut out = String::with_capacity(text.len());
        for (number, part) in text.split('"').enumerate() {
            if number > 0 {
                out.push('"');
            }
            let elements: Vec<_> = part.split(", ").map(|element| self.element(element, names)).collect();
            let is_quoted = number % 2 == 1;
            let part = if is_quoted { elements.join(", ") } else { part.to_owned() };
            out.push_str(&self.placeholders(&part, names));
        }
        out
    }

    /// A name, also behind a namespace (`shop/cart`) and of a pod of a StatefulSet (`cart-0`).
    fn element(self, element: &str, names: &BTreeSet<String>) -> String {
        if names.contains(element) {
            return self.name(element);
        }
        if let Some((namespace, name)) = element.split_once('/') {
            return format!("{namespace}/{}", self.element(name, names));
        }
        match element.rsplit_once('-') {
            Some((name, number)) if names.contains(name) && number.parse::<u8>().is_ok() => {
                format!("{}-{number}", self.name(name))
            }
            _ => element.to_owned(),
        }
    }

    fn placeholders(self, text: &str, names: &BTreeSet<String>) -> String {
        let ends = ['}', '+', '/'];
        names.iter().fold(text.to_owned(), |text, name| {
            ends.iter().fold(text, |text, end| {
                text.replace(&format!("{{{name}{end}"), &format!("{{{}{end}", self.name(name)))
            })
        })
    }
}

/// Names of pods that a step introduces, but those by which the plugin knows the node agent's own.
fn introduced(step: &str) -> Vec<String> {
    let is_free = |name: &String| {
        let is_label =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        is_label && !name.starts_with(DAEMONSET)
    };
    let of = |introduction: &str| {
        step.match_indices(introduction)
            .filter_map(|(at, found)| step.get(at + found.len()..)?.split('"').next().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    INTRODUCTIONS.iter().flat_map(|introduction| of(introduction)).filter(is_free).collect()
}

#[cfg(test)]
mod tests {
    use cucumber::gherkin::GherkinEnv;

    use super::*;

    const FEATURE: &str = r#"Feature: F
  Background:
    Given pod "outside" outside the mesh
  Scenario: S
    Given pod "cart" of the mesh on node "node-2"
    And its annotation "a" is "{outside+1}, {cart/16}"
    When "cart" starts
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And they are called "cart-0, cart-1"
    And it deletes pods "shop/cart" and pod "istio-cni-node-x7k2p"
    And it says "cart of another kind"
    And rows:
      | cart | outside the mesh | node-2 |
"#;

    fn steps(drawn: Drawn) -> Vec<String> {
        let mut feature = Feature::parse(FEATURE, GherkinEnv::default()).unwrap();
        drawn.rename(&mut feature);
        let background = feature.background.unwrap().steps;
        let all = background.into_iter().chain(feature.scenarios.remove(0).steps);
        all.map(|step| match step.table {
            Some(table) => table.rows[0].join("|"),
            None => step.value,
        })
        .collect()
    }

    #[test]
    fn names_are_replaced_wherever_steps_mean_a_pod_or_a_node_and_nowhere_else() {
        let drawn = Drawn::new(0xb2a1);
        let (cart, outside, node) = (drawn.word("cart"), drawn.word("outside"), drawn.word("node"));
        assert_eq!(
            steps(drawn),
            [
                format!("pod \"{outside}\" outside the mesh"),
                format!("pod \"{cart}\" of the mesh on node \"{node}-2\""),
                format!("its annotation \"a\" is \"{{{outside}+1}}, {{{cart}/16}}\""),
                format!("\"{cart}\" starts"),
                format!("TCP from \"{cart}\" to \"{outside}\" port 8080 passes 15001"),
                format!("they are called \"{cart}-0, {cart}-1\""),
                format!("it deletes pods \"shop/{cart}\" and pod \"istio-cni-node-x7k2p\""),
                "it says \"cart of another kind\"".to_owned(),
                format!("{cart}|outside the mesh|{node}-2"),
            ]
        );
    }

    #[test]
    fn a_seed_draws_the_same_names_each_time_and_another_seed_others() {
        assert_eq!(steps(Drawn::new(7)), steps(Drawn::new(7)));
        assert_ne!(steps(Drawn::new(7)), steps(Drawn::new(8)));
        for seed in 0..200 {
            let (pods, second) = Drawn::new(seed).networks();
            assert!(NETWORKS.contains(&pods) && pods < second, "{pods} {second}");
        }
    }
}
