// SPDX-License-Identifier: Apache-2.0
//! Merging: what comes out, and each refusal.

use serde_json::json;

use super::*;
use crate::report::SCHEMA;
use crate::verdict::Totals;

/// A report on scenarios, each an id and a verdict.
fn report(shard: Option<(usize, usize)>, scenarios: &[(&str, &str)]) -> serde_json::Value {
    let record = |(id, verdict): &(&str, &str)| {
        json!({
            "id": id, "group": "g", "feature": "F", "name": id, "file": format!("features/{}.feature", &id[..3]),
            "line": 3, "tags": ["g", "iptables-tools"], "verdict": verdict, "reason": "why", "seconds": 1.5,
            "back_ends": ["nft: it works"], "step_kind": "then", "steps": [{"step": "Given x", "seconds": 0.5}],
            "evidence": [format!("evidence/{id}/rules.txt")],
        })
    };
    let shard = shard.map(|(number, of)| json!({"number": number, "of": of}));
    let ids: Vec<_> = scenarios.iter().map(|(id, _)| id).collect();
    let digests = json!({"cnilab": "c", "workload": "w", "features": "f", "scenarios": "s"});
    let machine = json!({
        "kernel": "6.1", "build": "#1", "architecture": "x86_64", "distribution": "D", "security": "none", "cgroups": "v2", "tools": {},
    });
    json!({
        "schema": SCHEMA,
        "header": {
            "suite": "1.0.0", "tier": "netns", "kernel": "6.1", "back_end": "nft", "seed": "00ab", "jobs": 4,
            "product": {"name": "example", "version": "1", "capabilities": ["istio-cni"], "files": []},
            "binaries": [{"name": "istio-cni", "path": "/a", "version": "1", "sha256": "aa", "bytes": 1, "is_static": true}],
            "privilege": {"user_namespace": {"mapping": "0 0 1"}},
            "probes": [{"need": "iptables-tools", "met": false, "evidence": "none", "absent": true}],
            "selection": {"tags": null, "feature": null, "only": [], "rerun": null, "shard": shard},
            "ids": {"selected": ids, "left_out": ["g/z"]}, "digests": digests, "machine": machine, "command": ["run"],
            "began": format!("2026-01-01T00:00:0{}.000Z", scenarios.len()), "ended": "2026-01-01T00:01:00.000Z",
        },
        "totals": Totals::default(), "back_ends": {}, "exit": 0, "strict": false, "seconds": 2.5,
        "lacks": [{"what": "iptables-tools", "evidence": "none", "get": ["apt"], "scenarios": 1}],
        "scenarios": scenarios.iter().map(record).collect::<Vec<_>>(), "integrity": "",
    })
}

fn given(path: &str, report: serde_json::Value) -> Given {
    Given {
        path: path.into(),
        sha256: format!("sum of {path}"),
        report: serde_json::from_value(report).unwrap(),
    }
}

/// Two parts of three scenarios.
fn parts() -> [serde_json::Value; 2] {
    [
        report(Some((1, 2)), &[("g/a", "pass"), ("g/c", "inapplicable")]),
        report(Some((2, 2)), &[("g/b", "pass")]),
    ]
}

fn refusal(reports: impl IntoIterator<Item = serde_json::Value>) -> String {
    let given = reports.into_iter().zip(["one", "two", "three"]).map(|(report, path)| given(path, report));
    merged(given.collect()).unwrap_err().to_string()
}

#[test]
fn a_report_that_was_read_is_written_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = parts();
    for mut report in
        [given("one", one.clone()).report, merged(vec![given("one", one), given("two", two)]).unwrap()]
    {
        report.totals = Totals::of(report.scenarios.iter().map(|record| record.verdict));
        report.back_ends = report::count(&report.scenarios);
        report.write(dir.path()).unwrap();
        let path = dir.path().join("report.json");
        let again = read(&path, Path::new("/elsewhere")).unwrap().report;
        assert_eq!(
            serde_json::to_string_pretty(&again).unwrap() + "\n",
            std::fs::read_to_string(&path).unwrap()
        );
    }
}

#[test]
fn parts_become_the_whole_in_the_order_of_the_files() {
    let [one, two] = parts();
    let whole = merged(vec![given("two", two), given("one", one)]).unwrap();
    let ids: Vec<_> = whole.scenarios.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, ["g/a", "g/b", "g/c"]);
    assert_eq!((whole.totals.selected, whole.totals.pass, whole.totals.inapplicable), (3, 2, 1));
    assert_eq!((whole.header.selection.shard, whole.parts.len(), whole.exit), (None, 2, 0));
    assert_eq!((whole.back_ends.get("nft"), whole.lacks[0].scenarios), (Some(&3), 2));
    assert!((whole.seconds - 5.0).abs() < 1e-9);
}

#[test]
fn what_happened_in_one_part_happened_in_the_whole() {
    let exit = |verdict: &str, code: u8| {
        let [one, mut two] = parts();
        two["scenarios"][0]["verdict"] = json!(verdict);
        two["exit"] = json!(code);
        merged(vec![given("one", one), given("two", two)]).unwrap().exit
    };
    assert_eq!([exit("fail", 1), exit("inconclusive", 3), exit("unsupported", 4)], [1, 3, 4]);
    assert_eq!([exit("skipped", 130), exit("fail", 130)], [130, 1]);
}

#[test]
fn a_part_in_which_nothing_could_run_is_excused_in_the_whole() {
    let [one, mut two] = parts();
    two["scenarios"][0]["verdict"] = json!("inapplicable");
    assert_eq!(merged(vec![given("one", one), given("two", two)]).unwrap().exit, 0);
}

#[test]
fn runs_that_have_nothing_in_common_are_one_of_these_scenarios() {
    let mut one = report(None, &[("g/b", "pass")]);
    one["header"]["selection"]["feature"] = json!("features/b");
    let whole = merged(vec![given("one", one), given("two", report(None, &[("g/a", "pass")]))]).unwrap();
    let ids: Vec<_> = whole.scenarios.iter().map(|record| record.id.clone()).collect();
    assert_eq!(ids, ["g/a", "g/b"]);
    assert_eq!(whole.header.selection.only, ids);
}

#[test]
fn a_scenario_in_two_reports_is_refused() {
    let [one, _] = parts();
    assert_eq!(refusal([one.clone(), one]), "scenarios: id: g/a is in one and in two");
}

#[test]
fn a_difference_that_matters_is_refused_with_both_values() {
    for (pointer, value, told) in [
        ("/header/suite", json!("2.0.0"), "header.suite: 1.0.0 in one, 2.0.0 in two"),
        ("/header/tier", json!("kubeconfig"), "header.tier: netns in one, kubeconfig in two"),
        ("/header/digests/features", json!("g"), "header.digests.features: f in one, g in two"),
        ("/header/digests/workload", json!("x"), "header.digests.workload: w in one, x in two"),
        (
            "/header/product/files",
            json!([{"path": "p.yaml", "sha256": "dd"}]),
            "header.product.files:  in one, dd in two",
        ),
        (
            "/header/binaries/0/sha256",
            json!("bb"),
            "header.binaries: istio-cni aa in one, istio-cni bb in two",
        ),
        ("/strict", json!(true), "strict: false in one, true in two"),
        ("/header/selection/shard/of", json!(3), "header.selection.shard.of: 2 in one, 3 in two"),
    ] {
        let [one, mut two] = parts();
        *two.pointer_mut(pointer).unwrap() = value;
        assert_eq!(refusal([one, two]), told);
    }
    let [one, mut two] = parts();
    two["header"]["selection"]["tags"] = json!("@x");
    assert!(refusal([one, two]).starts_with("header.selection: {\"tags\":null"));
}

#[test]
fn a_part_that_is_lacking_or_of_other_features_is_refused() {
    let part = |number, id| report(Some((number, 3)), &[(id, "pass")]);
    assert_eq!(refusal([part(1, "g/a"), part(3, "g/c")]), "header.selection.shard: 2/3 is lacking");
    let twice = refusal([part(1, "g/a"), part(1, "g/b"), part(3, "g/c")]);
    assert_eq!(twice, "header.selection.shard: 1/3 is there 2 times");
    let beside = refusal([part(1, "g/a"), report(None, &[("g/b", "pass")])]);
    assert_eq!(beside, "header.selection.shard: 1/3 in one, none in two: merge the parts first");
    let short = report(Some((1, 2)), &[("g/a", "pass")]);
    let long = report(Some((2, 2)), &[("g/b", "pass"), ("g/c", "pass")]);
    assert!(refusal([short, long]).starts_with("totals.selected: [1, 2] in the parts of 3"));
}

#[test]
fn a_file_that_is_no_report_of_this_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    let refusal = || format!("{:#}", read(&path, Path::new("/elsewhere")).unwrap_err());
    assert!(refusal().contains("report.json: No such file"), "{}", refusal());
    for (text, told) in [
        ("{", "EOF while parsing"),
        ("{}", "missing field `schema`"),
        (r#"{"schema": 3}"#, "schema: 3, and this cnilab reads 6"),
        (r#"{"schema": 6, "future": 1}"#, "unknown field `future`"),
    ] {
        std::fs::write(&path, text).unwrap();
        assert!(refusal().contains(told), "{told} is not in {}", refusal());
    }
    let mut empty = given("", report(None, &[])).report;
    empty.exit = Exit::Usage.code();
    empty.write(dir.path()).unwrap();
    let over_itself = read(&path, dir.path()).unwrap_err().to_string();
    assert!(over_itself.contains("would replace it"), "{over_itself}");
}

#[test]
fn evidence_goes_along_where_it_is_there_and_never_elsewhere() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(from.path().join("evidence/g/a")).unwrap();
    std::fs::write(from.path().join("evidence/g/a/rules.txt"), "rules").unwrap();
    let mut one = given("", report(None, &[("g/a", "fail"), ("g/b", "fail")]));
    one.path = from.path().join("report.json");
    let found = files(std::slice::from_ref(&one)).unwrap();
    carry(&found, to.path(), &mut one.report.scenarios).unwrap();
    let there: Vec<_> = one.report.scenarios.iter().map(|record| record.evidence.clone()).collect();
    assert_eq!(there, [vec!["evidence/g/a/rules.txt".to_owned()], vec![]]);
    assert_eq!(std::fs::read_to_string(to.path().join("evidence/g/a/rules.txt")).unwrap(), "rules");
    one.report.scenarios[0].evidence = vec!["../passwd".to_owned()];
    assert!(files(&[one]).unwrap_err().to_string().contains("\"../passwd\" is not below the report"));
}

#[test]
fn reports_on_different_clusters_are_refused_and_those_of_the_labs_own_worlds_are_not() {
    let differing = |tier: &str, field: &str| {
        let [mut one, mut two] = parts();
        for (report, value) in [(&mut one, "1.34"), (&mut two, "1.36")] {
            report["header"]["tier"] = json!(tier);
            report["header"][field] = match field {
                "probes" => json!([{"need": "real-kernel", "met": true, "evidence": value}]),
                _ => json!(value),
            };
        }
        [one, two]
    };
    for field in ["probes", "chaos"] {
        assert!(refusal(differing("node", field)).starts_with(&format!("header.{field}: 1.34 in one")));
        let [one, two] = differing("netns", field);
        assert!(merged(vec![given("one", one), given("two", two)]).is_ok());
    }
}

/// A report in a directory as a run leaves it.
fn written(name: &str, dir: &Path, report: serde_json::Value) -> PathBuf {
    let mut report = given(name, report).report;
    report.totals = Totals::of(report.scenarios.iter().map(|record| record.verdict));
    report.back_ends = report::count(&report.scenarios);
    report.exit = report.verdict().code();
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    report.write(&dir).unwrap();
    dir.join("report.json")
}

/// Refusal of a report after an edit of its text.
fn edited(path: &Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    let refused = read(path, Path::new("/elsewhere")).unwrap_err();
    std::fs::write(path, text).unwrap();
    format!("{refused:#}")
}

type Edit = fn(&mut serde_json::Value);

/// An editor who computes the digest as well.
fn forged(path: &Path, edit: impl Fn(&mut serde_json::Value)) -> String {
    let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    let forged: Report = serde_json::from_value(value).unwrap();
    let directory = tempfile::tempdir().unwrap();
    forged.write(directory.path()).unwrap();
    let forged = directory.path().join("report.json");
    read(&forged, Path::new("/elsewhere")).map_or_else(|why| format!("{why:#}"), |_| "taken".to_owned())
}

#[test]
fn an_edited_report_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let one = written("one", dir.path(), report(None, &[("g/a", "fail"), ("g/b", "pass")]));
    assert!(read(&one, Path::new("/elsewhere")).is_ok());
    for (from, to) in [
        (r#""verdict": "fail""#, r#""verdict": "pass""#),
        (r#""exit": 1"#, r#""exit": 0"#),
        (r#""sha256": "aa""#, r#""sha256": "bb""#),
        (r#""features": "f""#, r#""features": "g""#),
    ] {
        let refused = edited(&one, from, to);
        assert!(
            refused.contains("integrity: ") && refused.contains("it was edited after the run"),
            "{refused}"
        );
    }
}

#[test]
fn a_report_that_contradicts_itself_is_refused_whatever_its_digest_is() {
    let dir = tempfile::tempdir().unwrap();
    let one = written("one", dir.path(), report(None, &[("g/a", "fail"), ("g/b", "pass")]));
    assert_eq!(forged(&one, |_| ()), "taken");
    let edits: [(&str, Edit); 5] = [
        ("totals: ", |report| report["scenarios"][0]["verdict"] = json!("pass")),
        ("exit: 0, and its scenarios come to 1", |report| report["exit"] = json!(0)),
        ("exit: 3, and its scenarios come to 1", |report| report["exit"] = json!(3)),
        ("back_ends: ", |report| report["back_ends"]["nft"] = json!(7)),
        ("header.ids.selected: ", |report| report["header"]["ids"]["selected"] = json!(["g/a"])),
    ];
    for (told, edit) in edits {
        let refused = forged(&one, edit);
        assert!(refused.contains(told), "{told} is not in {refused}");
    }
}

#[test]
fn parts_are_named_by_their_digests_and_what_they_excuse_is_counted_and_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = parts();
    let (one, two) = (written("one", dir.path(), one), written("two", dir.path(), two));
    let to = dir.path().join("merged");
    std::fs::create_dir(&to).unwrap();
    let given = [&one, &two].map(|path| read(path, &to).unwrap());
    let merged = merged(given.to_vec()).unwrap();
    let sums: Vec<_> = merged.parts.iter().map(|part| part.sha256.clone()).collect();
    let of = |path: &Path| crate::suite::of_file(path).unwrap();
    assert_eq!(sums, [of(&one), of(&two)]);
    let ids = &merged.header.ids;
    assert_eq!((ids.selected.len(), ids.left_out.as_slice()), (3, ["g/z".to_owned()].as_slice()));
    assert_eq!(merged.header.began, "2026-01-01T00:00:01.000Z");
    merged.write(&to).unwrap();
    let merged = to.join("report.json");
    assert_eq!(forged(&merged, |_| ()), "taken");
    let edits: [(&str, Edit); 4] = [
        ("parts[0].excused: 100000, and its scenarios and probes have 1", |report| {
            report["parts"][0]["excused"] = json!(100_000);
        }),
        ("parts[0].header.ids: g/nowhere is not among the scenarios", |report| {
            report["parts"][0]["header"]["ids"]["selected"][0] = json!("g/nowhere");
        }),
        ("parts[1].header.ids: g/a is of another part as well", |report| {
            report["parts"][1]["header"]["ids"]["selected"] = json!(["g/b", "g/a"]);
        }),
        ("parts: g/b is of none", |report| {
            report["parts"][1]["header"]["ids"]["selected"] = json!([]);
        }),
    ];
    for (told, edit) in edits {
        let refused = forged(&merged, edit);
        assert!(refused.contains(told), "{told} is not in {refused}");
    }
}

#[test]
fn a_part_whose_run_did_not_end_well_is_never_merged_to_green() {
    let [one, mut two] = parts();
    two["exit"] = json!(3);
    assert_eq!(merged(vec![given("one", one), given("two", two)]).unwrap().exit, 3);
}

#[test]
fn evidence_that_is_a_link_is_refused_and_nothing_of_it_is_published() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(from.path().join("evidence/g/a")).unwrap();
    let link = from.path().join("evidence/g/a/rules.txt");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    let mut one = given("", report(None, &[("g/a", "fail")]));
    one.path = from.path().join("report.json");
    let found = files(std::slice::from_ref(&one)).unwrap();
    let refused = carry(&found, to.path(), &mut one.report.scenarios).unwrap_err();
    assert!(format!("{refused:#}").ends_with("rules.txt: symbolic links are not followed"), "{refused:#}");
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/etc", link.parent().unwrap()).unwrap();
    one.report.scenarios[0].evidence = vec!["evidence/g/a/passwd".to_owned()];
    let found = files(std::slice::from_ref(&one)).unwrap();
    assert!(carry(&found, to.path(), &mut one.report.scenarios).is_err());
    assert!(!to.path().join("evidence").exists());
}
