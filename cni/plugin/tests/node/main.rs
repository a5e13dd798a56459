// SPDX-License-Identifier: Apache-2.0
//! The built plugin on a locked-down node: no shell, no tool, a read-only root, rights that are missing. Each case is a process of its
//! own with its own mounts, users and networks, which die with it.
//!
//! Without root cases are ignored with the reason; with `CI` set that is a failure.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod stage;

use std::process::{Command, ExitCode};

use netfilter::address::Rtnetlink;
use netfilter::route::PolicyRoutes;
use nix::sched::CloneFlags;
use rig::rights;
use rustix::thread::CapabilitySet;
use serde_json::json;
use stage::Stage;

/// A case: a sentence, and what it does.
struct Case(&'static str, fn(Stage));

const CASES: &[Case] = &[
    Case("without_tools_and_with_a_read_only_root_a_pod_is_redirected", bare),
    Case("a_tproxy_pod_gets_its_routes_once", tproxy),
    Case("every_back_end_that_needs_no_tool_works_without_one", back_ends),
    Case("a_missing_tool_is_named_with_the_remedy", missing_tool),
    Case("without_a_writable_run_directory_a_pod_is_redirected", read_only_run_directory),
    Case("a_namespace_that_may_not_be_opened_is_named_with_the_remedy", unopened),
    Case("without_cap_sys_admin_the_capability_is_named", without_sys_admin),
    Case("without_cap_net_admin_the_capability_is_named", without_net_admin),
    Case("a_kubeconfig_that_may_not_be_read_is_named_with_the_remedy", unreadable_kubeconfig),
    Case("an_agent_that_may_not_be_asked_is_named", unasked_agent),
    Case("a_record_that_may_not_be_read_is_told_and_passed_over", unreadable_record),
    Case("a_dry_run_on_a_read_only_file_system_says_so", dry_run),
];

fn main() -> ExitCode {
    if let Some((name, dir)) = rig::process::own_test() {
        let Case(_, work) = CASES.iter().find(|case| case.0 == name).unwrap();
        work(Stage::enter(&dir));
        return ExitCode::SUCCESS;
    }
    // Without root there is no user for the proxy.
    let unmet = rights::acquire(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unmet_users();
    rig::run(CASES.iter().map(|&Case(name, _)| rig::process::test(name, unmet.clone())))
}

fn bare(stage: Stage) {
    let stage = stage.with_agent().without_tools();
    assert!(Command::new("/bin/sh").output().is_err(), "there is no tool");
    assert!(std::fs::write("/written", "").is_err(), "the root is read-only");
    stage.add().succeeds();
    assert!(stage.is_redirected());
}

fn tproxy(mut stage: Stage) {
    stage.annotations["sidecar.istio.io/interceptionMode"] = json!("TPROXY");
    let stage = stage.with_agent().without_tools();
    for _ in 0..2 {
        stage.add().succeeds();
        let wanted = PolicyRoutes { mark: 1337, table: 133, ipv6: false };
        let missing = stage.inside(|| Rtnetlink::open().unwrap().add_policy_routes(wanted).unwrap());
        assert!(missing.is_empty(), "{missing:?}");
    }
}

fn back_ends(stage: Stage) {
    let mut stage = stage.with_agent().without_tools();
    for backend in ["nft", "nft-compat"] {
        stage.conf["millrace_backend"] = json!(backend);
        for rules in ["created", "unchanged"] {
            let answer = stage.add();
            answer.succeeds();
            // Rules of another back end are replaced.
            let done = [rules, "replaced"].map(|done| answer.log.contains(&format!("\"rules\":\"{done}\"")));
            assert!(done[0] || (rules == "created" && done[1]), "{backend}: {}", answer.log);
            assert!(
                answer.log.contains(&format!("\"backend\":\"{backend}: it was asked for")),
                "{}",
                answer.log
            );
        }
    }
}

fn missing_tool(mut stage: Stage) {
    stage.conf["millrace_backend"] = json!("iptables-legacy");
    let stage = stage.with_agent().without_tools();
    stage.add().fails_with(999, &["iptables-legacy-restore", "install", "nft-compat"]);
    assert!(!stage.is_redirected());
}

fn read_only_run_directory(stage: Stage) {
    let stage = stage.with_agent().with_read_only_files();
    let answer = stage.add();
    answer.succeeds();
    assert!(answer.log.contains("traffic is redirected"), "on stderr: {}", answer.log);
    assert!(stage.is_redirected());
}

fn unopened(stage: Stage) {
    let stage = stage.with_agent().without(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    stage.lock("netns");
    stage.add().fails_with(5, &[stage.netns().to_str().unwrap(), "SELinux"]);
}

fn without_sys_admin(stage: Stage) {
    let stage = stage.with_agent().without(CapabilitySet::SYS_ADMIN);
    stage.add().fails_with(5, &[stage.netns().to_str().unwrap(), "CAP_SYS_ADMIN"]);
}

fn without_net_admin(stage: Stage) {
    let stage = stage.with_agent().without(CapabilitySet::NET_ADMIN);
    stage.add().fails_with(999, &["CAP_NET_ADMIN", "container runtime"]);
    assert!(!stage.is_redirected());
}

fn unreadable_kubeconfig(stage: Stage) {
    let stage = stage.without(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    let path = stage.run_file("istio-cni-kubeconfig", "");
    stage.lock("run/istio-cni-kubeconfig");
    stage.add().fails_with(11, &[path.to_str().unwrap(), "SELinux"]);
}

fn unasked_agent(stage: Stage) {
    let stage = stage.with_agent().without(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    stage.lock("run/agent.sock");
    stage.add().fails_with(11, &["run/agent.sock: Permission denied", "SELinux"]);
}

fn unreadable_record(stage: Stage) {
    let stage = stage.with_agent().without(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    let path = stage.run_file("backend", "backend=nft\nreason=usual\n");
    stage.lock("run/backend");
    let answer = stage.add();
    answer.succeeds();
    assert!(answer.log.contains(path.to_str().unwrap()), "{}", answer.log);
    assert!(answer.log.contains("nft-compat"), "{}", answer.log);
}

fn dry_run(mut stage: Stage) {
    stage.conf["native_nftables"] = json!(true);
    let stage = stage.with_agent().without_tools().set("DRY_RUN_FILE_PATH", "/rules");
    stage.add().fails_with(5, &["/rules", "read-only"]);
}
