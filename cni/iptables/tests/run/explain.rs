// SPDX-License-Identifier: Apache-2.0
//! Explanations as recorded in `tests/explain/*`: `arguments` (one a line), `pod.yaml` and `rules.txt` where there are any,
//! `expected.txt`.
//! `MILLRACE_UPDATE_GOLDENS=1 cargo test -p istio-iptables --test run explanations` records them anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use iptables::exit::Exit;
use serde_json::Value;

use crate::stage::Stage;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/explain")
}

#[test]
fn explanations_are_as_recorded() {
    let mut differences = Vec::new();
    let mut count = 0;
    for case in fs::read_dir(directory()).unwrap() {
        let case = case.unwrap().path();
        let arguments = fs::read_to_string(case.join("arguments")).unwrap();
        let mut stage = Stage::new();
        for name in ["pod.yaml", "rules.txt"] {
            if let Ok(text) = fs::read_to_string(case.join(name)) {
                stage = stage.with_file(name, &text);
            }
        }
        let seen = stage.run(&std::iter::once("explain").chain(arguments.lines()).collect::<Vec<_>>());
        let got = format!("{}{}exit {}\n", seen.stdout, seen.stderr, seen.exit.code());
        let expected = case.join("expected.txt");
        if std::env::var_os("MILLRACE_UPDATE_GOLDENS").is_some() {
            fs::write(&expected, &got).unwrap();
        }
        let want = fs::read_to_string(&expected).unwrap();
        if got != want {
            differences.push(format!("{}\n--- want\n{want}--- got\n{got}", case.display()));
        }
        count += 1;
    }
    assert!(count >= 8, "{count} recorded explanations");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The example of the documents.
#[test]
fn the_shortest_explanation_is_four_lines() {
    let pod = fs::read_to_string(directory().join("outbound/pod.yaml")).unwrap();
    let seen = Stage { stdin: pod, ..Stage::new() }.run(&[
        "explain",
        "--pod",
        "-",
        "--packet",
        "out tcp 10.1.2.3:443 uid 1000",
    ]);
    let want = "\
redirected to port 15001 (outbound capture)
  nat OUTPUT            1  -j ISTIO_OUTPUT
  nat ISTIO_OUTPUT     11  -j ISTIO_REDIRECT                       includeOutboundIPRanges = \"*\" (default)
  nat ISTIO_REDIRECT    1  -p tcp -j REDIRECT --to-ports 15001
";
    assert_eq!((seen.stdout.as_str(), seen.exit), (want, Exit::Success));
}

#[test]
fn json_says_the_same() {
    let pod = fs::read_to_string(directory().join("outbound/pod.yaml")).unwrap();
    let seen = Stage::new().with_file("cart.yaml", &pod).run(&[
        "explain",
        "--pod=cart.yaml",
        "-o",
        "json",
        "--packet",
        "out tcp 10.1.2.3:443 uid 1000",
    ]);
    let json: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!((&json["version"], &json["decision"]), (&1.into(), &"redirected".into()));
    let packet = &json["packets"][0];
    assert_eq!((&packet["outcome"], &packet["port"]), (&"redirected".into(), &15001.into()));
    let step = &packet["steps"][1];
    assert_eq!((&step["chain"], &step["position"]), (&"ISTIO_OUTPUT".into(), &11.into()));
    assert_eq!(step["setting"], "includeOutboundIPRanges");
    let settings = json["settings"].as_array().unwrap();
    let ranges = settings.iter().find(|setting| setting["name"] == "includeOutboundIPRanges").unwrap();
    assert_eq!(ranges["source"]["kind"], "default");
    let rules =
        json["chains"].as_array().unwrap().iter().map(|chain| chain["rules"].as_array().unwrap().len());
    assert_eq!(rules.sum::<usize>(), 20);
}

#[test]
fn names_of_users_and_groups_mean_their_numbers() {
    let stage = || {
        let stage = Stage::new().with_file("/etc/passwd", "nobody:x:65534:65534::/:\n");
        stage.with_file("/etc/group", "nogroup:x:65534:\njava:x:303:\n")
    };
    let packet = "out tcp 10.1.2.3:443 uid 65534 gid 65534";
    for backend in ["auto", "iptables-nft"] {
        let backend = format!("--backend={backend}");
        let words = ["explain", "-u", "nobody", "-g", "nogroup", "-i", "*", &backend, "--packet", packet];
        let seen = stage().run(&words);
        assert!(seen.stdout.starts_with("not redirected"), "{}", seen.stdout);
        assert!(seen.stdout.contains("--uid-owner 65534"), "{}", seen.stdout);
    }
    let pod = fs::read_to_string(directory().join("outbound/pod.yaml")).unwrap();
    let of_pod = |group: &str| {
        let stage = stage().with_file("pod.yaml", &pod).with_env(&[("ISTIO_OUTBOUND_OWNER_GROUPS", "java")]);
        let packet = format!("out tcp 10.1.2.3:443 uid 1000 gid {group}");
        stage.run(&["explain", "--pod", "pod.yaml", "--packet", &packet]).stdout
    };
    assert!(of_pod("303").starts_with("redirected to port 15001"), "{}", of_pod("303"));
    assert!(of_pod("304").starts_with("not redirected"), "{}", of_pod("304"));
}

#[test]
fn bad_usage_is_64() {
    for (arguments, part) in [
        (&["explain", "--pod", "missing.yaml"][..], "failed to open missing.yaml"),
        (&["explain", "--packet", "nonsense"], "for example: 'out tcp 10.1.2.3:443 uid 1000'"),
        (&["explain", "--addresses", "here"], "failed to read --addresses: \"here\" is no address"),
        (&["explain", "--output", "xml"], "xml"),
        (&["explain", "stray"], "stray"),
    ] {
        let seen = Stage::new().run(arguments);
        assert_eq!((seen.exit, seen.exit.code()), (Exit::Usage, 64), "{arguments:?}");
        assert!(seen.stdout.is_empty() && seen.stderr.contains(part), "{arguments:?}: {}", seen.stderr);
    }
    let refused = Stage::new().run(&["explain", "-i", "10.0.0.0"]);
    assert_eq!(refused.exit, Exit::Failure);
    let help = Stage::new().run(&["explain", "--help"]);
    assert!(help.exit == Exit::Success && help.stdout.contains("Examples:"));
}

/// Pods with what upstream makes of them (`scenarios/pods/`): decision, error text, and each table's number of rules.
#[test]
fn every_recorded_pod_is_decided_as_recorded() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/pods/random.json");
    let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(cases.len(), 119);
    for case in &cases {
        let pod = case["pod"].to_string();
        let addresses = match case["net"].as_str().unwrap() {
            "v4" => "10.9.0.2",
            "v6" => "fd00:9::2",
            _ => "10.9.0.2,fd00:9::2",
        };
        let seen = Stage { stdin: pod.clone(), ..Stage::new() }.run(&[
            "explain",
            "--pod=-",
            "-o",
            "json",
            "--exclude-namespaces=kube-system,excluded-ns",
            "--addresses",
            addresses,
        ]);
        let json: Value = serde_json::from_str(&seen.stdout).unwrap();
        let outcome = &case["outcome"];
        match outcome["kind"].as_str().unwrap() {
            "skip" => assert_eq!((&json["decision"], seen.exit), (&"skipped".into(), Exit::Success), "{pod}"),
            "error" => {
                assert_eq!((&json["decision"], seen.exit), (&"refused".into(), Exit::Failure), "{pod}");
                assert_eq!(json["reason"]["text"], outcome["message"], "{pod}");
            }
            _ => assert_eq!(listed(&json), recorded(outcome), "{pod}"),
        }
    }
}

/// Number of rules by table and family.
fn listed(json: &Value) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for chain in json["chains"].as_array().unwrap() {
        let key = (chain["family"].as_str().unwrap().to_owned(), chain["table"].as_str().unwrap().to_owned());
        *counts.entry(key).or_default() += chain["rules"].as_array().unwrap().len();
    }
    counts
}

fn recorded(outcome: &Value) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for (family, tables) in ["IPv4", "IPv6"].iter().zip(outcome["rules"].as_array().unwrap()) {
        for (table, lines) in tables.as_object().unwrap() {
            let is_rule = |line: &&Value| line.as_str().is_some_and(|line| !line.starts_with("-N"));
            let rules = lines.as_array().unwrap().iter().filter(is_rule).count();
            if rules > 0 {
                counts.insert(((*family).to_owned(), table.clone()), rules);
            }
        }
    }
    counts
}
