// SPDX-License-Identifier: Apache-2.0
//! Whole calls, in a world of stand-ins: what is asked, what is done, and what the runtime gets.

mod commands;
mod diagnose;
mod scene;

use std::time::Duration;

use protocol::agent::{RequestKind, Response};
use serde_json::{Value, json};

use super::*;
use crate::agent::AgentError;
use crate::http::HttpError;
use scene::*;

#[test]
fn a_mesh_pod_gets_rules_and_the_runtime_its_result() {
    let outcome = Scene::new("ADD").run();
    assert_eq!(outcome.result()["ips"][0]["address"], "10.9.0.2/24");
    assert_eq!(outcome.done, ["enter", "rules"]);
    assert_eq!((outcome.heard.len(), outcome.requests), (1, 0));
    assert!(outcome.log.contains("\"told_by\":\"agent\""), "{}", outcome.log);
}

#[test]
fn an_add_names_the_network_that_the_runtime_goes_by_and_a_check_does_not() {
    let network = |command: &'static str| match &Scene::new(command).run().heard[..] {
        [RequestKind::Pod(key)] => key.network.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((network("ADD").as_str(), network("CHECK").as_str()), ("k8s", ""));
}

#[test]
fn an_add_s_last_line_says_what_it_came_to_and_how_long_it_took() {
    let phases = ["facts_us", "apply_us"];
    let nothing_to_do = Scene::new("ADD").pod("kube-system", "dns").run();
    let untold = Scene::new("ADD").with(|scene| {
        scene.agent = || Err(AgentError::Absent);
        scene.kubeconfig = false;
    });
    for (outcome, result, spoken) in [
        (Scene::new("ADD").run(), "redirected", 2),
        (nothing_to_do, "skipped", 0),
        (untold.run(), "failed", 1),
        (Scene::new("ADD").set("CNI_ARGS", "K8S_POD_NAME").run(), "failed", 0),
    ] {
        let last: Value = serde_json::from_str(outcome.log.lines().last().unwrap()).unwrap();
        assert_eq!(last["result"], result, "{last}");
        assert!(last["add_us"].as_str().unwrap().parse::<u64>().is_ok(), "{last}");
        assert_eq!(phases.iter().filter(|phase| last[**phase].is_string()).count(), spoken, "{last}");
        assert_eq!(outcome.log.matches("add_us").count(), 1, "{}", outcome.log);
    }
    assert!(!Scene::new("CHECK").run().log.contains("add_us"));
}

#[test]
fn a_pod_with_ipv6_gets_the_inbound_address_before_its_rules() {
    let outcome = Scene::new("ADD").with(|scene| scene.site.addresses = vec!["::1", "fd00::2"]).run();
    outcome.result();
    assert_eq!(outcome.done, ["enter", "address", "rules"]);
}

#[test]
fn pods_that_are_told_by_their_name_need_neither_agent_nor_server() {
    for (namespace, name) in
        [("kube-system", "dns"), ("istio-system", "istio-cni-node-x"), ("", ""), ("shop", "")]
    {
        let scene = Scene::new("ADD").pod(namespace, name).with(|scene| scene.kubeconfig = false);
        let outcome = scene.set("CNI_NETNS", "/gone").run();
        outcome.result();
        assert_eq!(
            (outcome.heard.len(), outcome.requests, outcome.done.len()),
            (0, 0, 0),
            "{namespace}/{name}"
        );
    }
}

#[test]
fn a_pod_outside_the_mesh_is_left_alone() {
    let scene = Scene::new("ADD").with(|scene| {
        scene.agent = || found(|pod| pod["spec"]["containers"] = json!([{"name": "app"}]));
    });
    let outcome = scene.run();
    outcome.result();
    assert!(outcome.done.is_empty());
    assert!(outcome.log.contains("\"reason\":\"no-proxy\""), "{}", outcome.log);
}

#[test]
fn an_entry_of_an_older_agent_leads_to_the_agent_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let entry = json!({"cniVersion": "1.1.0", "name": "k8s", "type": "istio-cni",
        "log_uds_address": dir.path().join("log.sock"), "kubernetes": {"kubeconfig": "/nowhere"},
        "prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.9.0.2/24"}]}});
    let called = |command| Scene::new(command).run_in(dir.path(), entry.to_string().as_bytes());
    let outcome = called("ADD");
    outcome.result();
    assert_eq!((outcome.heard.len(), outcome.requests), (1, 0));
    assert!(outcome.log.contains("\"told_by\":\"agent\""), "{}", outcome.log);
    assert_eq!(called("DEL").heard.len(), 1);
}

#[test]
fn the_server_is_asked_where_the_agent_does_not_help() {
    let misses: [(&str, AgentSays); 8] = [
        ("absent", no_agent),
        ("late", || Err(AgentError::Late(Duration::from_secs(1)))),
        ("stranger", || Err(AgentError::Stranger { listener: 1000, own: 0 })),
        ("unknown", || Ok(Response::Unknown)),
        ("old", || Ok(Response::Unsupported)),
        ("another uid", || found(|pod| pod["metadata"]["uid"] = "u0".into())),
        ("of a release without pods' contexts", || found(|pod| pod["spec"]["securityContext"] = Value::Null)),
        ("no pod at all", || Ok(Response::Found { pod: Box::default() })),
    ];
    for (what, agent) in misses {
        let outcome = Scene::new("ADD").with(|scene| (scene.agent, scene.api) = (agent, api_pod)).run();
        outcome.result();
        assert_eq!((outcome.requests, outcome.done.as_slice()), (1, &["enter", "rules"][..]), "{what}");
        assert!(outcome.log.contains("\"told_by\":\"api-server\""), "{what}: {}", outcome.log);
    }
}

#[test]
fn the_pod_s_context_of_an_older_agent_matters_only_where_the_proxy_s_container_has_none() {
    let outcome = Scene::new("ADD")
        .with(|scene| {
            scene.agent = || {
                found(|pod| {
                    pod["spec"]["securityContext"] = Value::Null;
                    pod["spec"]["containers"][1]["securityContext"] =
                        json!({"runAsUser": 7, "runAsGroup": 7});
                })
            };
        })
        .run();
    outcome.result();
    assert_eq!((outcome.heard.len(), outcome.requests), (1, 0));
}

#[test]
fn an_app_that_runs_as_its_proxy_is_in_the_log() {
    let outcome = Scene::new("ADD")
        .with(|scene| scene.agent = || found(|pod| pod["spec"]["securityContext"] = json!({"runAsUser": 7})))
        .run();
    outcome.result();
    assert_eq!(outcome.done, ["enter", "rules"]);
    assert!(outcome.log.contains("container app runs with the proxy's user 7"), "{}", outcome.log);
}

#[test]
fn a_pod_of_a_sandboxed_runtime_gets_rules_and_a_warning_or_is_refused() {
    for (agent, entered) in [
        ((|| found(|pod| pod["spec"]["runtimeClassName"] = "kata-qemu".into())) as AgentSays, false),
        (|| found(|pod| pod["spec"]["runtimeClassName"] = "secure".into()), true),
    ] {
        let scene = |refuse: bool| {
            Scene::new("ADD").with(|scene| {
                scene.agent = agent;
                scene.site.links.taps.push("tap0_kata".to_owned());
                if refuse {
                    scene.conf["millrace_sandboxed_runtimes"] = "refuse".into();
                }
            })
        };
        let warned = scene(false).run();
        warned.result();
        assert_eq!(warned.done.last(), Some(&"rules"));
        assert!(warned.log.contains("runs this pod in a guest"), "{}", warned.log);
        let refused = scene(true).run();
        assert_eq!(refused.exit, Exit::Failure);
        assert_eq!(refused.done, if entered { &["enter"][..] } else { &[] });
        for part in ["pods of sandboxed runtimes are refused: runtime class", "sandboxedRuntimes"] {
            assert!(refused.stdout.contains(part), "{}", refused.stdout);
        }
    }
}

#[test]
fn without_a_uid_only_what_is_read_now_counts() {
    // As cri-dockerd calls; the agent remembers a deleted pod of the same name that was outside the mesh.
    let scene = Scene::new("ADD").set("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart");
    let outcome = scene
        .with(|scene| {
            scene.agent = || found(|pod| pod["spec"]["containers"] = json!([{"name": "app"}]));
            scene.api = api_pod;
        })
        .run();
    outcome.result();
    assert_eq!((outcome.heard.len(), outcome.requests), (0, 1));
    assert_eq!(outcome.done, ["enter", "rules"]);
}

#[test]
fn del_succeeds_with_what_add_would_refuse() {
    let no_version = json!({"name": "k8s", "type": "istio-cni", "cniVersion": "9.9.9"});
    for conf in
        [no_version, json!({"name": "a b"}), json!({"name": 7}), json!({"name": "n", "cniVersion": []})]
    {
        let run = |command| Scene::new(command).with(|scene| scene.conf = conf.clone()).run();
        assert_eq!(run("DEL").exit, Exit::Success, "{conf}");
        assert_eq!(run("ADD").exit, Exit::Failure, "{conf}");
    }
}

#[test]
fn a_static_pod_is_known_by_its_mirror() {
    let scene = Scene::new("ADD").with(|scene| {
        scene.agent = || {
            found(|pod| {
                pod["metadata"]["uid"] = "of-the-mirror".into();
                pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "u1".into();
            })
        };
    });
    assert_eq!(scene.run().done, ["enter", "rules"]);
}

#[test]
fn without_facts_there_is_no_success_but_another_try() {
    let scenes: [(&str, bool, ServerSays, &str); 4] = [
        ("no kubeconfig", false, api_pod, "istio-cni-kubeconfig"),
        ("denied", true, || api_status(401), "token"),
        ("failing", true, || api_status(503), "503"),
        (
            "unreachable",
            true,
            || Err(HttpError::Connection(std::io::ErrorKind::ConnectionRefused.into())),
            "gave up",
        ),
    ];
    for (what, kubeconfig, api, said) in scenes {
        let scene = Scene::new("ADD")
            .with(|scene| (scene.kubeconfig, scene.agent, scene.api) = (kubeconfig, no_agent, api));
        let outcome = scene.run();
        let (code, message) = outcome.error();
        assert_eq!(code, 11, "{what}: {message}");
        assert!(message.contains(said), "{what}: {message}");
        assert!(outcome.done.is_empty(), "{what}");
        assert!(outcome.waited <= Duration::from_secs(10), "{what}: {:?}", outcome.waited);
        let everything = [&outcome.stdout, &outcome.stderr, &outcome.log].map(String::as_str).concat();
        assert!(!everything.contains("s3cret"), "{what}: {everything}");
    }
}

#[test]
fn the_plugin_s_own_namespace_is_refused_before_anything_is_done() {
    let own = |scene: Scene| scene.with(|scene| scene.site.own = true);
    let outcome = own(Scene::new("ADD")).run();
    assert_eq!(outcome.error().0, 8);
    assert_eq!((outcome.requests, outcome.done.len()), (0, 0));
    let outcome = own(Scene::new("ADD")).pod("kube-system", "dns").run();
    assert_eq!(outcome.error().0, 8);
    let outcome = own(Scene::new("ADD")).set("CNI_NETNS_OVERRIDE", "true").run();
    assert_eq!(outcome.done, ["enter", "rules"]);
}

#[test]
fn a_bad_annotation_fails_before_the_namespace_is_entered() {
    let scene = Scene::new("ADD").with(|scene| {
        scene.agent = || {
            found(|pod| pod["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "NONE".into())
        };
    });
    let outcome = scene.run();
    let (code, message) = outcome.error();
    assert_eq!(code, 999);
    assert!(message.contains("annotation value error for value redirectMode"), "{message}");
    for way_out in ["sidecar.istio.io/interceptionMode is NONE", "interceptionModeNone=skip"] {
        assert!(message.contains(way_out), "{message}");
    }
    assert!(outcome.done.is_empty());
}

#[test]
fn a_pod_without_interception_is_left_alone_where_the_node_says_so() {
    for (mode, is_left_alone) in [("NONE", true), ("none", false)] {
        let scene = Scene::new("ADD").with(|scene| {
            scene.conf["millrace_interception_mode_none"] = "skip".into();
            scene.agent = match mode {
                "NONE" => || {
                    found(|pod| {
                        pod["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "NONE".into()
                    })
                },
                _ => || {
                    found(|pod| {
                        pod["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "none".into()
                    })
                },
            };
        });
        let outcome = scene.run();
        assert_eq!(outcome.exit == Exit::Success, is_left_alone, "{mode}: {}", outcome.stdout);
        assert_eq!(outcome.log.contains("no-interception"), is_left_alone, "{mode}: {}", outcome.log);
        assert!(outcome.done.is_empty());
    }
}

#[test]
fn a_pod_that_the_runtime_says_was_never_injected_needs_neither_agent_nor_server() {
    for command in ["ADD", "CHECK"] {
        let scene = Scene::new(command).with(|scene| {
            let annotations = json!({"kubernetes.io/config.source": "api"});
            scene.conf["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": annotations});
            scene.kubeconfig = false;
        });
        let outcome = scene.run();
        assert_eq!((outcome.exit, outcome.heard.len(), outcome.requests), (Exit::Success, 0, 0), "{command}");
    }
}

#[test]
fn a_result_that_cannot_be_written_fails_before_anything_is_done() {
    let scene = Scene::new("ADD").with(|scene| {
        scene.conf["cniVersion"] = "0.2.0".into();
        scene.conf["prevResult"] = Value::Null;
    });
    let outcome = scene.run();
    outcome.error();
    assert_eq!((outcome.heard.len(), outcome.done.len()), (0, 0));
}

#[test]
fn a_tproxy_pod_gets_its_routes() {
    let scene = Scene::new("ADD").with(|scene| {
        scene.agent = || {
            found(|pod| pod["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "TPROXY".into())
        };
    });
    let outcome = scene.run();
    outcome.result();
    assert_eq!(outcome.done, ["enter", "routes", "rules"]);
}

#[test]
fn the_back_end_is_the_wanted_one_and_the_log_says_why() {
    let named = |name: &str| Scene::new("ADD").with(|scene| scene.conf["millrace_backend"] = name.into());
    let native = || Scene::new("ADD").with(|scene| scene.conf["native_nftables"] = true.into());
    let recorded = |text: &'static str| Scene::new("ADD").with(|scene| scene.record = Some(text));
    let cases: [(&str, Scene, &str, bool); 10] = [
        ("nothing said", Scene::new("ADD"), "nft-compat: the kernel has", false),
        ("auto", named("auto"), "nft-compat: the kernel has", false),
        ("by name", named("nft"), "nft: it was asked for", false),
        ("native_nftables", native(), "nft: it was asked for", false),
        (
            "a name before native_nftables",
            native().with(|scene| scene.conf["millrace_backend"] = "iptables-nft".into()),
            "iptables-nft: it was asked for",
            false,
        ),
        (
            "the environment",
            Scene::new("ADD").set("FORCE_IPTABLES_BINARY", "legacy"),
            "iptables-legacy: it was asked for",
            false,
        ),
        ("a record", recorded("backend=nft\nreason=no-nft-compat\n"), "nft: the kernel's nf_tables", false),
        ("a strange record", recorded("backend=ebpf\nreason=usual\n"), "nft-compat: the kernel has", true),
        ("a typo", named("nftables"), "nft-compat: the kernel has", true),
        (
            "a typo in the environment",
            Scene::new("ADD").set("FORCE_IPTABLES_BINARY", "nft-legacy"),
            "nft-compat: the kernel has",
            true,
        ),
    ];
    for (what, scene, said, warns) in cases {
        let outcome = scene.run();
        outcome.result();
        assert!(outcome.log.contains(&format!("\"backend\":\"{said}")), "{what}: {}", outcome.log);
        assert_eq!(outcome.log.contains("\"level\":\"warn\""), warns, "{what}: {}", outcome.log);
    }
}

#[test]
fn a_kernel_that_refuses_fails_the_call() {
    let outcome = Scene::new("ADD").with(|scene| scene.site.fails = true).run();
    assert_eq!(outcome.error().0, 999);
    let outcome = Scene::new("ADD").with(|scene| scene.site.addresses = vec!["127.0.0.1", "fe80::1"]).run();
    let (code, message) = outcome.error();
    assert_eq!(code, 999);
    assert!(message.contains("no valid local IP address found"), "{message}");
    let outcome = Scene::new("ADD").set("CNI_NETNS", "/gone").run();
    let (code, message) = outcome.error();
    assert_eq!(code, 5);
    assert!(message.contains("/gone"), "{message}");
}

#[test]
fn a_dry_run_writes_the_rules_down_and_applies_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    let scene = Scene::new("ADD").set("DRY_RUN_FILE_PATH", path.to_str().unwrap()).with(|scene| {
        scene.site.addresses = vec!["fd00::2"];
        scene.agent = || {
            found(|pod| pod["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "TPROXY".into())
        };
    });
    let outcome = scene.run();
    outcome.result();
    assert_eq!(outcome.done, ["enter"]);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("* nat\n").count(), 2, "{text}");
    assert!(text.contains("-j TPROXY"), "{text}");
}

#[test]
fn a_dry_run_is_written_as_the_back_end_would_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    let scene = || Scene::new("ADD").set("DRY_RUN_FILE_PATH", path.to_str().unwrap());
    let native = scene().with(|scene| scene.conf["native_nftables"] = true.into());
    let recorded = scene().with(|scene| scene.record = Some("backend=nft\nreason=no-nft-compat\n"));
    for scene in [native, recorded] {
        scene.run().result();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("add table inet istio-proxy-nat\n"), "{text}");
        assert!(!text.contains("COMMIT"), "{text}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn groups_by_name_are_those_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    let scene = |groups: &str| Scene::new("ADD").set("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", groups);
    let unknown = scene("root,no-such-group").run();
    let (code, message) = unknown.error();
    assert_eq!((code, unknown.done.len()), (4, 0));
    let want = r#"failed to read ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE: \"no-such-group\" is neither in /etc/group nor a number"#;
    assert!(message.contains(want), "{message}");
    assert_eq!(scene("root").run().done, ["enter", "rules"]);
    let tools = scene("no-such-group").with(|scene| scene.conf["millrace_backend"] = "iptables-nft".into());
    assert_eq!(tools.run().done, ["enter", "rules"], "the tools look names up by themselves");
    scene("no-such-group").set("DRY_RUN_FILE_PATH", path.to_str().unwrap()).run().result();
    assert!(std::fs::read_to_string(&path).unwrap().contains("--gid-owner no-such-group -j RETURN"));
}

#[test]
fn ambient_mode_is_tolerated_with_one_warning() {
    let outcome = Scene::new("ADD").with(|scene| scene.conf["ambient_enabled"] = true.into()).run();
    outcome.result();
    assert_eq!(outcome.done, ["enter", "rules"]);
    assert_eq!(outcome.log.matches("ambient mode is not supported").count(), 1, "{}", outcome.log);
}

#[test]
fn only_the_result_goes_to_stdout_whatever_is_logged() {
    for level in ["debug", "none", "nonsense"] {
        let outcome = Scene::new("ADD").with(|scene| scene.conf["plugin_log_level"] = level.into()).run();
        outcome.result();
        // The configuration is read before it is known which pod it is about.
        let of_the_configuration = |line: &&str| line.contains("plugin_log_level is unknown");
        for line in
            outcome.stderr.lines().chain(outcome.log.lines()).filter(|line| !of_the_configuration(line))
        {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["pod"], "shop/cart");
        }
        let warnings = outcome.log.lines().filter(of_the_configuration).count();
        assert_eq!(warnings, usize::from(level == "nonsense"), "{}", outcome.log);
        assert_eq!(outcome.stderr.is_empty(), level == "none");
        assert!(!outcome.log.is_empty());
    }
}
