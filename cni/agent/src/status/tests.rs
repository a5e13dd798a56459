// SPDX-License-Identifier: Apache-2.0
//! Reports of a healthy node and of a broken one.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::install::kubeconfig::expiry;
use crate::settings::effective::Effective;

fn token(claims: &str) -> String {
    format!("e30.{}.c2VjcmV0", URL_SAFE_NO_PAD.encode(claims))
}

fn well() -> NodeStatus {
    NodeStatus {
        binaries: vec![Binary { path: "/bin/p".to_owned(), content: Content::Shipped }],
        credentials: Credentials {
            path: "/run/k".to_owned(),
            mode: Some(0o600),
            token_expires: Some(10_000),
            problem: None,
        },
        sockets: [("agent.sock", Use::Questions), ("log.sock", Use::Lines)]
            .map(|(path, purpose)| Socket { path: path.to_owned(), purpose, problem: None })
            .into(),
        backend: Some("nft-compat".to_owned()),
        conflist: Conflist {
            usable: vec!["10-x.conflist".to_owned()],
            file: Some("10-x.conflist".to_owned()),
            problem: None,
        },
        agent: Agent::Ready,
        ..NodeStatus::default()
    }
}

#[test]
fn each_thing_wrong_is_one_finding_with_a_remedy() {
    assert_eq!(decide::decide(&well(), 1000), []);
    type Spoil = fn(&mut NodeStatus);
    let spoils: [(&str, Spoil); 13] = [
        ("no plugin at", |seen| {
            seen.binaries[0].content = Content::Unreadable("no such file".to_owned());
        }),
        ("not the one of this agent", |seen| {
            seen.binaries[0].content = Content::Other("00".repeat(32));
        }),
        ("cannot be used", |seen| seen.credentials.problem = Some("no such file".to_owned())),
        ("token expired", |seen| seen.credentials.token_expires = Some(999)),
        ("about to expire", |seen| seen.credentials.token_expires = Some(1100)),
        ("every user", |seen| seen.credentials.mode = Some(0o644)),
        ("nobody answers at agent", |seen| seen.sockets[0].problem = Some("refused".to_owned())),
        ("nobody answers at log", |seen| seen.sockets[1].problem = Some("refused".to_owned())),
        ("of conflist: gone", |seen| {
            seen.agent = Agent::NotReady([("conflist".to_owned(), "gone".to_owned())].into());
        }),
        ("network is not right", |seen| seen.conflist.problem = Some("no entry".to_owned())),
        ("by its name (mesh-x)", |seen| seen.unknown_name = Some("mesh-x".to_owned())),
        ("a setting is not", |seen| seen.mistakes.push("PORT: x".to_owned())),
        ("does not answer", |seen| seen.agent = Agent::Silent("refused".to_owned())),
    ];
    for (word, spoil) in spoils {
        let mut seen = well();
        spoil(&mut seen);
        let findings = decide::decide(&seen, 1000);
        assert_eq!(findings.len(), 1, "{word}: {findings:?}");
        assert!(findings[0].what.contains(word) && !findings[0].remedy.is_empty(), "{word}: {findings:?}");
    }
}

#[test]
fn a_binary_is_compared_with_the_one_that_is_shipped() {
    let dir = tempfile::tempdir().unwrap();
    let [shipped, there, none] = ["shipped", "there", "none"].map(|name| dir.path().join(name));
    std::fs::write(&there, "abc").unwrap();
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
    assert_eq!(gather::content(&there, &shipped), Content::Unjudged(digest.clone()));
    std::fs::write(&shipped, "abc").unwrap();
    assert_eq!(gather::content(&there, &shipped), Content::Shipped);
    std::fs::write(&shipped, "abd").unwrap();
    assert_eq!(gather::content(&there, &shipped), Content::Other(digest));
    assert!(matches!(gather::content(&none, &shipped), Content::Unreadable(_)));
}

#[test]
fn the_token_is_never_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("istio-cni-kubeconfig");
    let secret = token(r#"{"exp":5000}"#);
    std::fs::write(&path, json(&secret)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let seen = NodeStatus { credentials: gather::credentials(&path), ..well() };
    assert_eq!((seen.credentials.token_expires, seen.credentials.mode), (Some(5000), Some(0o600)));
    // Broken after the token, so that a reader's error would quote it.
    std::fs::write(&path, format!("{}}}", json(&secret))).unwrap();
    let broken = NodeStatus { credentials: gather::credentials(&path), ..well() };
    assert!(broken.credentials.problem.is_some());
    for (seen, output) in [
        (&seen, StatusOutput::Text),
        (&seen, StatusOutput::Json),
        (&broken, StatusOutput::Text),
        (&broken, StatusOutput::Json),
    ] {
        let mut out = Vec::new();
        print::print(seen, &decide::decide(seen, 1000), 1000, output, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!secret.split('.').any(|part| part.len() > 4 && text.contains(part)), "{text}");
    }
}

fn json(token: &str) -> String {
    format!(r#"{{"users":[{{"name":"istio-cni","user":{{"token":"{token}"}}}}]}}"#)
}

#[test]
fn only_a_token_with_an_expiry_has_one() {
    assert_eq!(expiry(&token(r#"{"exp":1795000000}"#)), Some(1_795_000_000));
    for bad in [token("{}"), token("no json"), "opaque".to_owned(), "a.!.c".to_owned(), String::new()] {
        assert_eq!(expiry(&bad), None, "{bad}");
    }
}

#[test]
fn an_agent_says_what_is_missing_and_a_stranger_is_none() {
    let say = |answer: &'static str| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Closing a socket with unread data resets the connection.
            let (mut request, mut part) = (Vec::new(), [0; 1024]);
            while !request.ends_with(b"\r\n\r\n") {
                let read = io::Read::read(&mut stream, &mut part).unwrap();
                request.extend_from_slice(&part[..read]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let agent = gather::ask(address);
        server.join().unwrap();
        (agent, address)
    };
    assert_eq!(say("HTTP/1.1 200 OK\r\n\r\n{\"ready\":true,\"missing\":{}}\n").0, Agent::Ready);
    let missing = [("sockets".to_owned(), "denied".to_owned())].into();
    let text = "HTTP/1.1 503 no\r\n\r\n{\"ready\":false,\"missing\":{\"sockets\":\"denied\"}}\n";
    assert_eq!(say(text).0, Agent::NotReady(missing));
    let (stranger, address) = say("HTTP/1.1 200 OK\r\n\r\nhello");
    assert!(matches!(stranger, Agent::Silent(_)), "{stranger:?}");
    assert!(matches!(gather::ask(address), Agent::Silent(_)), "nobody is there any more");
}

#[test]
fn text_begins_with_what_is_there_and_ends_with_what_is_wrong() {
    let mut seen = well();
    let text = |seen: &NodeStatus| {
        let mut out = Vec::new();
        print::print(seen, &decide::decide(seen, 1000), 1000, StatusOutput::Text, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(
        text(&seen).ends_with("what the ConfigMap says is not known\nnothing is wrong\n"),
        "{}",
        text(&seen)
    );
    seen.agent = Agent::Silent("refused".to_owned());
    assert!(
        text(&seen).contains("\nwrong: the agent does not answer: refused\n  look whether"),
        "{}",
        text(&seen)
    );
}

#[test]
fn the_running_agents_settings_count_for_more_than_ones_own() {
    use crate::settings::effective::NotApplied;
    use crate::settings::layers::SettingValue;
    use crate::settings::{Origin, load};
    use manifests::table;

    let own = std::collections::BTreeMap::from([("EXCLUDE_NAMESPACES".to_owned(), "old".to_owned())]);
    let loaded = load(std::collections::BTreeMap::new(), &own, |_| false);
    let alone = gather::judgement(&loaded, None);
    assert_eq!((alone.judged_by, &alone.settings), (JudgedBy::Surroundings, &loaded.settings));
    let value = |text: &str| SettingValue { text: text.to_owned(), origin: Origin::ConfigMap };
    let mut values: std::collections::BTreeMap<_, _> =
        loaded.values.iter().map(|(key, value)| (key.variable(), value.clone())).collect();
    values.insert(table::EXCLUDE_NAMESPACES.variable(), value("new"));
    let template = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&template, r#"{"type":"istio-cni","x":1}"#).unwrap();
    values.insert(table::TEMPLATE_FILE.variable(), value(template.path().to_str().unwrap()));
    let refused = vec![NotApplied { key: "X".to_owned(), wanted: value("y"), why: "no".to_owned() }];
    let judgement = gather::judgement(&loaded, Some(Effective { values, refused }));
    assert_eq!(judgement.judged_by, JudgedBy::Agent);
    assert_eq!(judgement.settings.entry.exclude_namespaces, ["new"]);
    let template = judgement.settings.chain.template.as_deref().unwrap_or_default();
    assert!(template.contains(r#""x":1"#), "{template}");
    assert_eq!(judgement.mistakes, ["X=\"y\" from the ConfigMap is not applied: no"]);
}
