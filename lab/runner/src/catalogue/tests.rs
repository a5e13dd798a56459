// SPDX-License-Identifier: Apache-2.0

use super::*;

const FEATURE: &str = "\
@real-kernel
Feature: A thing

  Scenario: plain
    Given x

  @mutant:late
  Scenario Outline: row <a>
    Given <a>

    @ipv6
    Examples:
      | a   |
      | one |
      | two |
";

fn catalogue(selection: &Selection) -> anyhow::Result<Catalogue> {
    let root = tempfile::tempdir()?;
    std::fs::create_dir_all(root.path().join("features/group"))?;
    std::fs::write(root.path().join("features/group/thing.feature"), FEATURE)?;
    Catalogue::read(root.path(), selection)
}

fn ids(selection: &Selection) -> Vec<String> {
    catalogue(selection).unwrap().entries.into_iter().map(|entry| entry.id).collect()
}

#[test]
fn each_row_of_examples_is_a_scenario_with_a_name_of_its_own() {
    assert_eq!(
        ids(&Selection::default()),
        ["group/thing/plain", "group/thing/row[one]", "group/thing/row[two]"]
    );
}

#[test]
fn tags_are_inherited_and_tell_needs_from_mutants() {
    let all = catalogue(&Selection::default()).unwrap();
    let row = &all.entries[1];
    assert_eq!(row.needs().collect::<Vec<_>>(), ["real-kernel", "ipv6"]);
    assert_eq!(row.mutants().collect::<Vec<_>>(), ["late"]);
    assert_eq!(all.groups(), [("group".to_owned(), 3)]);
}

#[test]
fn a_tag_expression_selects_and_the_group_is_a_tag() {
    let select = |tags: &str| Selection { tags: Some(tags.to_owned()), ..Selection::default() };
    assert_eq!(ids(&select("@group and not @ipv6")), ["group/thing/plain"]);
    assert!(catalogue(&select("@a and")).is_err());
}

#[test]
fn only_selects_a_row_an_outline_or_a_feature() {
    let select = |only: &str| Selection { only: vec![only.to_owned()], ..Selection::default() };
    let (row, both) = (["group/thing/row[two]"], ["group/thing/row[one]", "group/thing/row[two]"]);
    assert_eq!(ids(&select("group/thing:15")), row);
    assert_eq!(ids(&select("group/thing/row[two]")), row);
    assert_eq!(ids(&select("features/group/thing.feature:8")), both);
    assert_eq!(ids(&select("group/thing/row")), both);
    assert_eq!(ids(&select("features/group/thing.feature")).len(), 3);
    assert_eq!(ids(&select("features/group/thing/")), ids(&select("group/thing")));
    let both = ["group/thing:15", "group/thing:9"].map(str::to_owned).to_vec();
    let error = catalogue(&Selection { only: both, ..Selection::default() }).unwrap_err().to_string();
    assert!(error.starts_with("--only group/thing:9: no scenario is there"), "{error}");
    assert!(catalogue(&select("group/thing/ro")).is_err());
}

#[test]
fn parts_of_a_selection_have_each_scenario_once() {
    let part = |number, of| ids(&Selection { shard: Some(Shard { number, of }), ..Selection::default() });
    assert_eq!(
        (part(1, 2), part(2, 2)),
        (
            vec!["group/thing/plain".to_owned(), "group/thing/row[two]".to_owned()],
            vec!["group/thing/row[one]".to_owned()],
        )
    );
    assert_eq!(part(1, 1), ids(&Selection::default()));
    let too_many = Selection { shard: Some(Shard { number: 1, of: 4 }), ..Selection::default() };
    let error = catalogue(&too_many).unwrap_err().to_string();
    assert_eq!(error, "--shard 1/4: 3 scenarios are selected, so there are no more parts");
}

#[test]
fn rerun_selects_what_did_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    let rerun = |one: &str, two: &str| {
        let json = serde_json::json!({"scenarios": [
            {"id": "group/thing/row[one]", "verdict": one}, {"id": "group/thing/row[two]", "verdict": two},
            {"id": "group/thing/plain", "verdict": "inapplicable"},
        ]});
        std::fs::write(&path, json.to_string()).unwrap();
        catalogue(&Selection { rerun: Some(path.clone()), ..Selection::default() })
    };
    let found =
        |one, two| rerun(one, two).unwrap().entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>();
    assert_eq!(found("pass", "fail"), ["group/thing/row[two]"]);
    assert_eq!(found("flaky", "inconclusive"), ["group/thing/row[one]", "group/thing/row[two]"]);
    let selection = Selection { rerun: Some(path.clone()), ..Selection::default() }.resolved().unwrap();
    let json = serde_json::to_value(&selection).unwrap();
    assert_eq!(json["rerun"]["report"], path.display().to_string(), "a rerun says so");
    assert_eq!(json["rerun"]["sha256"].as_str().map(str::len), Some(64));
    let again: Selection = serde_json::from_value(json).unwrap();
    assert_eq!(again.resolved().unwrap().only, selection.only, "it is resolved once");
    let error = format!("{:#}", rerun("pass", "pass").unwrap_err());
    assert!(error.ends_with("everything that could run passed"), "{error}");
}

#[test]
fn only_knows_former_names() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("features/group")).unwrap();
    std::fs::write(root.path().join("features/group/thing.feature"), FEATURE).unwrap();
    std::fs::write(root.path().join(names::ALIASES), "group/was/line: group/thing/row\n").unwrap();
    let only = vec!["group/was/line[two]".to_owned()];
    let found = Catalogue::read(root.path(), &Selection { only, ..Selection::default() }).unwrap();
    assert_eq!(found.entries.iter().map(|entry| &entry.id).collect::<Vec<_>>(), ["group/thing/row[two]"]);
}

#[test]
fn a_scenario_is_played_as_it_is_and_with_each_defect_that_it_names() {
    let names = ["late".to_owned(), "other".to_owned()];
    let everything = catalogue(&Selection::default()).unwrap();
    let all = everything.with_mutants(&names, Depth::EveryScenario, &[]);
    let ids: Vec<_> = all.entries.iter().map(|entry| entry.id.as_str()).collect();
    let wanted = ["[one]", "[two]", "[one]@late", "[two]@late"].map(|end| format!("group/thing/row{end}"));
    assert_eq!(ids, wanted);
    let found = all.features.iter().flat_map(|feature| {
        feature.scenarios.iter().map(|scenario| all.find(feature, scenario).unwrap().id.as_str())
    });
    assert_eq!(found.collect::<Vec<_>>(), wanted);
    let first = everything.with_mutants(&names, Depth::OneScenario, &[]);
    let ids: Vec<_> = first.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["group/thing/row[one]", "group/thing/row[one]@late"]);
    let controls = [everything.entries[1].record(Verdict::Pass, None)];
    let known = everything.with_mutants(&names, Depth::EveryScenario, &controls);
    let ids: Vec<_> = known.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, wanted[1..], "what passed is not played again without a defect");
}

#[test]
fn what_holds_on_every_back_end_is_played_on_each() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("features/group")).unwrap();
    let text =
        "Feature: A thing\n\n  @every-back-end @mutant:late\n  Scenario: plain\n    Given x\n    Then y\n";
    std::fs::write(root.path().join("features/group/thing.feature"), text).unwrap();
    let read = |only: &[&str]| {
        let only = only.iter().map(|&place| place.to_owned()).collect();
        Catalogue::read(root.path(), &Selection { only, ..Selection::default() }).unwrap()
    };
    let all = read(&[]);
    let ids: Vec<_> = all.entries.iter().map(|entry| entry.id.as_str()).collect();
    let ends = [
        "",
        "+nft",
        "+iptables-nft",
        "+iptables-legacy",
        "+fallen-back-to-nft",
        "+fallen-back-to-iptables-legacy",
    ];
    let names = ends.map(|end| format!("group/thing/plain{end}"));
    assert_eq!(ids, names);
    let found = all.features.iter().map(|feature| all.find(feature, &feature.scenarios[0]).unwrap());
    assert_eq!(found.map(|entry| entry.id.as_str()).collect::<Vec<_>>(), names);
    let steps =
        |entry: &Entry| entry.scenario.steps.iter().map(|step| step.value.clone()).collect::<Vec<_>>();
    assert_eq!(steps(&all.entries[0]), ["x", "y"]);
    let last = &all.entries[5];
    assert_eq!(last.needs().collect::<Vec<_>>(), ["fake-kernel", "iptables-tools"]);
    assert_eq!(last.scenario.name, "plain (fallen back to iptables-legacy)");
    let set = "its namespace holds one set of rules, that of iptables-legacy";
    assert_eq!(steps(last), ["a node whose kernel lacks nf-tables", "x", "y", set]);
    assert_eq!(read(&["group/thing/plain+iptables-nft"]).entries.len(), 1);
    assert_eq!(read(&["group/thing/plain"]).entries.len(), 1);
    assert_eq!(read(&["group/thing:4"]).entries.len(), 6);
    assert_eq!(read(&["group/thing"]).entries.len(), 6);
}

/// Pods of the mesh that have both families in the end, by the scenario's steps.
fn of_both_families(feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> bool {
    let background = feature.background.iter().flat_map(|background| &background.steps);
    let mut meshed = false;
    let mut both = false;
    for step in background.chain(&scenario.steps) {
        if step.value.starts_with("pod \"") {
            meshed = step.value.ends_with("of the mesh");
        }
        if meshed && let Some(families) = step.value.strip_prefix("its addresses are ") {
            both = families.contains(" and ");
        }
    }
    both
}

#[test]
fn every_redirection_of_a_pod_of_both_families_is_played_on_every_back_end() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let selection = Selection { feature: Some("redirection".into()), ..Selection::default() };
    let all = Catalogue::read(&root, &selection).unwrap();
    let mut counted = 0;
    for feature in &all.features {
        // There an init container writes the rules, whatever the node's back end is: features/init/back-ends.feature.
        let by_itself = feature.path.as_ref().is_some_and(|path| path.ends_with("init-container.feature"));
        for scenario in feature.scenarios.iter().filter(|scenario| of_both_families(feature, scenario)) {
            let tagged = scenario.tags.iter().any(|tag| tag == back_ends::TAG);
            assert!(tagged || by_itself, "{:?} lacks @{}", scenario.name, back_ends::TAG);
            counted += usize::from(tagged);
        }
    }
    assert!(counted >= 6 * 8, "{counted}");
}

#[test]
fn one_scenario_has_the_machine_for_itself() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = Catalogue::read(&root, &Selection::default()).unwrap();
    let alone = all.entries.iter().filter(|entry| entry.tags.iter().any(|tag| tag == SERIAL));
    assert_eq!(alone.count(), 1);
}

#[test]
fn a_feature_that_is_not_there_is_an_error() {
    let selection = Selection { feature: Some("elsewhere".into()), ..Selection::default() };
    assert!(catalogue(&selection).is_err());
}

#[test]
fn scenarios_that_wait_are_begun_among_the_others_and_those_of_a_directory_far_from_each_other() {
    let scenarios =
        |count: usize| (0..count).map(|at| format!("  Scenario: {at}\n    Given x\n")).collect::<String>();
    let feature = |name: &str, tag: &str, count| {
        let text = format!("{tag}\nFeature: {name}\n\n{}", scenarios(count));
        let parsed = gherkin::Feature::parse(text, GherkinEnv::default()).unwrap();
        gherkin::Feature { path: Some(format!("features/{name}/one.feature").into()), ..parsed }
    };
    let features = vec![
        feature("few", "@ipv6", 2),
        feature("many", "@ipv6", 4),
        feature("waits", "@long", 3),
        feature("works", "@busy", 2),
    ];
    let told = |feature: &gherkin::Feature| format!("{} {}", feature.name, feature.scenarios[0].name);
    let begun: Vec<_> = in_turn(features).iter().map(told).collect();
    assert_eq!(begun[..6], ["works 0", "works 1", "waits 0", "many 0", "few 0", "waits 1"]);
    assert_eq!(begun[6..], ["many 1", "waits 2", "many 2", "few 1", "many 3"]);
}
