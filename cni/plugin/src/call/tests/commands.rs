// SPDX-License-Identifier: Apache-2.0
//! Commands other than ADD.

use super::*;

#[test]
fn a_del_tells_the_agent_and_never_fails() {
    let outcome = Scene::new("DEL").run();
    outcome.silent_success();
    assert!(
        matches!(&outcome.heard[..], [RequestKind::Deleted(key)] if key.name == "cart" && key.container_id == "c1")
    );
    let scenes = [
        Scene::new("DEL").set("CNI_NETNS", ""),
        Scene::new("DEL").set("CNI_ARGS", "garbage"),
        Scene::new("DEL").set("CNI_ARGS", ""),
        Scene::new("DEL").with(|scene| scene.site.own = true),
        Scene::new("DEL").with(|scene| scene.agent = no_agent),
        Scene::new("DEL").with(|scene| scene.agent = || Err(AgentError::Late(Duration::from_millis(50)))),
        Scene::new("DEL").with(|scene| scene.conf["exclude_namespaces"] = 7.into()),
        Scene::new("DEL").with(|scene| scene.conf["prevResult"] = "garbage".into()),
        Scene::new("DEL").with(|scene| scene.conf["cni.dev/valid-attachments"] = Value::Null),
    ];
    for scene in scenes {
        let outcome = scene.run();
        outcome.silent_success();
        assert_eq!((outcome.requests, outcome.done.len()), (0, 0));
    }
}

#[test]
fn a_gc_changes_nothing() {
    for attachments in [Value::Null, json!([]), json!([{"containerID": "c1", "ifname": "eth0"}])] {
        let outcome = Scene::new("GC")
            .with(|scene| {
                scene.conf["cni.dev/valid-attachments"] = attachments.clone();
                scene.conf["cni.dev/attachments"] = attachments;
            })
            .run();
        outcome.silent_success();
        assert_eq!((outcome.heard.len(), outcome.requests, outcome.done.len()), (0, 0, 0));
    }
}

#[test]
fn a_check_fails_only_for_a_pod_that_must_have_rules_and_has_none() {
    let missing = Scene::new("CHECK").run();
    assert_eq!(missing.error().0, 100);
    assert_eq!(missing.done, ["look"]);
    let through_the_server =
        Scene::new("CHECK").with(|scene| (scene.agent, scene.api) = (no_agent, api_pod)).run();
    assert_eq!((through_the_server.error().0, through_the_server.requests), (100, 1));
    let not_injected: AgentSays = || found(|pod| pod["metadata"]["annotations"] = json!({}));
    let bad: AgentSays =
        || found(|pod| pod["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "NONE".into());
    let fine = [
        ("rules", Scene::new("CHECK").with(|scene| scene.site.ours = true)),
        ("skipped", Scene::new("CHECK").with(|scene| scene.agent = not_injected)),
        ("excluded", Scene::new("CHECK").pod("kube-system", "dns")),
        ("unknown", Scene::new("CHECK").with(|scene| (scene.agent, scene.kubeconfig) = (no_agent, false))),
        ("server fails", Scene::new("CHECK").with(|scene| scene.agent = no_agent)),
        ("bad annotation", Scene::new("CHECK").with(|scene| scene.agent = bad)),
        ("no namespace", Scene::new("CHECK").set("CNI_NETNS", "/gone")),
        ("unreadable", Scene::new("CHECK").with(|scene| scene.site.fails = true)),
        ("bad args", Scene::new("CHECK").set("CNI_ARGS", "x")),
        ("dry run", Scene::new("CHECK").set("DRY_RUN_FILE_PATH", "/tmp/rules")),
        ("bad config", Scene::new("CHECK").with(|scene| scene.conf["ambient_enabled"] = "yes".into())),
    ];
    for (what, scene) in fine {
        let outcome = scene.run();
        assert_eq!((outcome.exit, outcome.stdout.as_str()), (Exit::Success, ""), "{what}");
        assert!(outcome.waited <= Duration::from_millis(300), "{what}: {:?}", outcome.waited);
    }
}

#[test]
fn a_check_of_a_pod_with_rules_asks_nobody() {
    let outcome = Scene::new("CHECK").with(|scene| scene.site.ours = true).run();
    outcome.silent_success();
    assert_eq!((outcome.heard.len(), outcome.requests, outcome.done.as_slice()), (0, 0, ["look"].as_slice()));
}

#[test]
fn a_check_of_a_dry_run_asks_nobody_and_says_why_it_passes() {
    let outcome = Scene::new("CHECK").set("DRY_RUN_FILE_PATH", "/tmp/rules").run();
    outcome.silent_success();
    assert_eq!((outcome.heard.len(), outcome.requests, outcome.done.len()), (0, 0, 0));
    let lines = outcome.log.matches("check passes in a dry run").count();
    assert!(lines == 1 && outcome.log.contains("/tmp/rules"), "{}", outcome.log);
    let unset = Scene::new("CHECK").set("DRY_RUN_FILE_PATH", "").run();
    assert_eq!(unset.error().0, 100, "an empty variable is none, as for ADD");
}

#[test]
fn a_status_depends_on_the_configuration_alone_unless_asked_otherwise() {
    let bare = || Scene::new("STATUS").with(|scene| (scene.agent, scene.kubeconfig) = (no_agent, false));
    let outcome = bare().run();
    outcome.silent_success();
    assert!(outcome.log.contains("neither agent nor kubeconfig"), "{}", outcome.log);
    bare().with(|scene| scene.conf["millrace_status_gate"] = "of tomorrow".into()).run().silent_success();
    let gate = |scene: Scene| scene.with(|scene| scene.conf["millrace_status_gate"] = "agent".into());
    assert_eq!(gate(bare()).run().error().0, 50);
    gate(Scene::new("STATUS").with(|scene| scene.agent = || Ok(Response::Unknown))).run().silent_success();
    let broken = Scene::new("STATUS").with(|scene| scene.conf["exclude_namespaces"] = 7.into());
    assert!(matches!(broken.run().error().0, 6 | 7));
}

#[test]
fn calls_that_the_configuration_s_version_does_not_know_are_refused() {
    for (command, version) in [("CHECK", "0.3.1"), ("STATUS", "1.0.0"), ("GC", "1.0.0")] {
        let outcome = Scene::new(command).with(|scene| scene.conf["cniVersion"] = version.into()).run();
        assert_eq!(outcome.error().0, 1, "{command}");
    }
}

#[test]
fn the_configuration_s_mistake_goes_before_an_unknown_command() {
    let dir = tempfile::tempdir().unwrap();
    for (stdin, code) in [
        ("{", 6),
        (r#"{"name":7}"#, 6),
        ("{}", 7),
        (r#"{"name":"a b"}"#, 7),
        (r#"{"name":"n","cniVersion":1}"#, 4),
        (r#"{"name":"n","cniVersion":"9.9.9"}"#, 4),
        (r#"{"name":"n"}"#, 4),
    ] {
        let outcome = Scene::new("NOPE").run_in(dir.path(), stdin.as_bytes());
        assert_eq!(outcome.error().0, code, "{stdin}");
    }
    let missing = Scene::new("ADD").set("CNI_CONTAINERID", "").run_in(dir.path(), b"{");
    assert_eq!(missing.error().0, 4, "variables are read first");
}

#[test]
fn version_and_about_read_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = Scene::new("VERSION").run_in(dir.path(), b"garbage");
    assert_eq!(outcome.result()["cniVersion"], "1.1.0");
    let outcome = Scene::new("").run_in(dir.path(), b"garbage");
    outcome.silent_success();
    assert!(outcome.stderr.starts_with("CNI plugin istio-cni "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("0.1.0, 0.2.0"), "{}", outcome.stderr);
}
