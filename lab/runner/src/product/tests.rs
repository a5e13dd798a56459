// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::locate::Workspace;

const WHOLE: &str = "\
name: example
version: 1.31
binaries:
  directory: bin
  istio-iptables: rules
deployed: binaries
capabilities: [istio-cni, istio-iptables]
unsupported:
  install-cni: it has none
";

fn parse(text: &str) -> anyhow::Result<Description> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("product.yaml");
    std::fs::write(&path, text)?;
    let mut description = read(&path)?;
    for file in description.binaries.values_mut() {
        *file = file.strip_prefix(dir.path())?.to_owned();
    }
    Ok(description)
}

fn refusal(product: &Product, tags: &[&str]) -> Option<(Verdict, String)> {
    product.refusal(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_binary_has_the_name_of_its_role_unless_it_says_another() {
    let found = parse(WHOLE).unwrap();
    assert_eq!((found.product.name.as_str(), found.product.version.as_str()), ("example", "1.31"));
    assert_eq!(found.binaries[PLUGIN], Path::new("bin/istio-cni"));
    assert_eq!(found.binaries[TOOL], Path::new("bin/rules"));
    assert!(!found.binaries.contains_key(AGENT));
}

#[test]
fn what_is_not_claimed_is_unsupported_with_its_reason() {
    let product = parse(WHOLE).unwrap().product;
    assert_eq!(refusal(&product, &["redirection"]), None);
    assert_eq!(refusal(&product, &["init", "istio-iptables"]), None);
    let agent = Some((Verdict::Unsupported, "install-cni: it has none".to_owned()));
    assert_eq!(refusal(&product, &["install-cni", "millrace"]), agent);
    let own = Some((Verdict::Unsupported, "millrace: its description does not claim it".to_owned()));
    assert_eq!(refusal(&product, &["backend", "millrace"]), own);
}

#[test]
fn what_is_claimed_and_lacking_is_a_failure() {
    let mut product = parse(WHOLE).unwrap().product;
    product.missing.insert(TOOL.to_owned(), "no binary at /x".to_owned());
    assert_eq!(refusal(&product, &["istio-iptables"]), Some((Verdict::Fail, "no binary at /x".to_owned())));
    assert_eq!(refusal(&product, &["redirection"]), None);
    product.missing.insert(PLUGIN.to_owned(), "no binary at /y".to_owned());
    assert_eq!(refusal(&product, &["redirection"]), Some((Verdict::Fail, "no binary at /y".to_owned())));
}

#[test]
fn a_directory_claims_what_is_found_there() {
    let product = Product::of_directory(Path::new("/opt"), &[PLUGIN]);
    assert_eq!(refusal(&product, &["redirection"]), None);
    let lacking = Some((Verdict::Unsupported, "install-cni: no install-cni in /opt".to_owned()));
    assert_eq!(refusal(&product, &["install-cni"]), lacking);
}

#[test]
fn each_mistake_is_named_with_field_and_value_all_at_once() {
    let wrong = [
        ("name: example", "name: ../up", r#"name: "../up": letters, digits"#),
        ("version: 1.31\n", "", "version is missing"),
        ("  istio-iptables: rules", "  iptables: rules", r#"iptables: "rules": no such field of binaries"#),
        (
            "  istio-iptables: rules",
            "  install-cni: agent",
            r#"binaries.install-cni: "agent": capabilities does not"#,
        ),
        (
            "deployed: binaries",
            "deployed: helm",
            r#"deployed: "helm": `manifests`, `binaries` or `objects: FILE` is wanted"#,
        ),
        (
            "deployed: binaries",
            "deployed: manifests",
            r#"deployed: "manifests": a product that does not claim millrace"#,
        ),
        (
            "deployed: binaries",
            "deployed: {objects: none.yaml}",
            "objects run an install-cni, and capabilities does not claim it",
        ),
        ("deployed: binaries", "deployed: {objects: none.yaml}", "deployed.objects: "),
        (
            "[istio-cni, istio-iptables]",
            "[istio-cni, istio-iptables, repair]",
            r#"capabilities: "repair": not one of"#,
        ),
        (
            "  install-cni: it has none",
            "  istio-cni: why",
            r#"unsupported.istio-cni: "why": capabilities claims it"#,
        ),
        (
            "name: example",
            "name: example\ncolour: blue",
            r#"colour: "blue": no such field of the description"#,
        ),
    ];
    for (right, wrong, told) in wrong {
        assert!(WHOLE.contains(right), "{right}");
        let error = parse(&WHOLE.replace(right, wrong)).unwrap_err().to_string();
        assert!(error.contains(told), "{told} is not in {error}");
    }
    let error = parse("name: [x]\ncolour: blue\n").unwrap_err().to_string();
    for field in ["name", "colour", "version", "capabilities", "binaries", "deployed"] {
        assert!(
            error.contains(&format!("{field}: ")) || error.contains(&format!("{field} is missing")),
            "{field}: {error}"
        );
    }
}

#[test]
fn a_value_of_another_form_is_no_empty_one() {
    let objects = "deployed: {objects: none.yaml, settings: [x], image: /usr}\nerrors: [x]";
    let error = parse(&WHOLE.replace("deployed: binaries", objects)).unwrap_err().to_string();
    for told in [
        r#"deployed.settings: ["x"]: a map is wanted"#,
        r#"deployed.image: "/usr": a list of paths is wanted"#,
        r#"errors: ["x"]: a map is wanted"#,
    ] {
        assert!(error.contains(told), "{told} is not in {error}");
    }
}

#[test]
fn a_text_that_excuses_every_error_is_refused_with_file_and_key() {
    for (text, why) in [
        ("", "fewer than 12 characters"),
        ("e", "fewer than 12 characters"),
        ("panicked", "fewer than 12 characters"),
        ("panicked at src/", "never excused"),
        ("fatal error: stack overflow", "never excused"),
    ] {
        let error =
            parse(&format!("{WHOLE}errors: {{{text:?}: all of it is known}}\n")).unwrap_err().to_string();
        let told = format!("errors: {text:?}: ");
        assert!(error.contains("product.yaml: ") && error.contains(&told) && error.contains(why), "{error}");
    }
    let kept = parse(&format!("{WHOLE}errors: {{\"retrying (retry count\": it goes on}}\n")).unwrap();
    assert_eq!(kept.product.errors["retrying (retry count"], "it goes on");
}

#[test]
fn every_adapter_says_of_each_capability_whether_it_has_it_or_why_not() {
    let dir = Workspace::find().unwrap().root.join("scenarios/products");
    let mut names = Vec::new();
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.is_file()) {
        let product = read(&file).unwrap().product;
        for capability in CAPABILITIES {
            let claimed = product.claims.iter().any(|claim| claim == capability);
            assert!(
                claimed || product.unsupported.contains_key(capability),
                "{}: {capability}",
                product.name
            );
        }
        names.push(product.name);
    }
    names.sort();
    assert_eq!(names, ["millrace", "upstream", "upstream-agent", "upstream-plugin"]);
}
