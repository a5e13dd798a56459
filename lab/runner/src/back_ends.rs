// SPDX-License-Identifier: Apache-2.0
//! Scenarios that hold whatever the back end is: one with the tag `@every-back-end` is played as it is, and once more on each back end,
//! chosen and fallen back to.

use cucumber::gherkin::{Feature, Step, StepType};

/// The tag.
pub const TAG: &str = "every-back-end";

/// A node on which a scenario is played once more.
struct Variant {
    name: &'static str,
    /// Step that prepares the node.
    node: &'static str,
    /// Back end that pods then get.
    back_end: &'static str,
    /// Tags of its requirements.
    needs: &'static [&'static str],
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "nft", node: "a node whose back end is nft", back_end: "nft", needs: &[] },
    Variant {
        name: "iptables-nft",
        node: "a node whose back end is iptables-nft",
        back_end: "iptables-nft",
        needs: &["iptables-tools"],
    },
    Variant {
        name: "iptables-legacy",
        node: "a node whose back end is iptables-legacy",
        back_end: "iptables-legacy",
        needs: &["iptables-tools"],
    },
    Variant {
        name: "fallen back to nft",
        node: "a node whose kernel lacks nft-compat",
        back_end: "nft",
        needs: &["fake-kernel"],
    },
    Variant {
        name: "fallen back to iptables-legacy",
        node: "a node whose kernel lacks nf-tables",
        back_end: "iptables-legacy",
        needs: &["fake-kernel", "iptables-tools"],
    },
];

/// The feature as it is, and a copy for each back end with the scenarios that have the tag. Copies share their lines and differ in names.
pub fn expand(feature: Feature) -> Vec<Feature> {
    let copies: Vec<_> = VARIANTS.iter().map(|variant| copy(&feature, variant)).collect();
    std::iter::once(feature).chain(copies).collect()
}

/// The end of names in one of these: nothing in the feature as it is.
#[must_use]
pub fn mark(copy: usize) -> String {
    let variant = copy.checked_sub(1).and_then(|at| VARIANTS.get(at));
    variant.map_or_else(String::new, |variant| format!("+{}", variant.name.replace(' ', "-")))
}

fn copy(feature: &Feature, variant: &Variant) -> Feature {
    let mut copy = feature.clone();
    copy.scenarios.retain(|scenario| scenario.tags.iter().any(|tag| tag == TAG));
    for scenario in &mut copy.scenarios {
        scenario.name = format!("{} ({})", scenario.name, variant.name);
        scenario.tags.extend(variant.needs.iter().map(|&need| need.to_owned()));
        let set = format!("its namespace holds one set of rules, that of {}", variant.back_end);
        scenario
            .steps
            .extend(scenario.steps.last().cloned().map(|last| like(&last, StepType::Then, "And ", set)));
        if copy.background.is_none() {
            first(&mut scenario.steps, variant);
        }
    }
    // A background may start pods, and a node is what it is before that.
    if let Some(background) = &mut copy.background {
        first(&mut background.steps, variant);
    }
    copy
}

fn first(steps: &mut Vec<Step>, variant: &Variant) {
    let node = steps.first().map(|step| like(step, StepType::Given, "Given ", variant.node.to_owned()));
    steps.splice(0..0, node);
}

fn like(step: &Step, ty: StepType, keyword: &str, value: String) -> Step {
    Step { ty, keyword: keyword.to_owned(), value, docstring: None, table: None, ..step.clone() }
}
