// SPDX-License-Identifier: Apache-2.0
//! Clusters of real namespaces, processes and packets, inside namespaces of the test's own.

#![expect(clippy::unwrap_used, reason = "a test with a main of its own")]

mod files;
mod hand;
mod isolation;
mod lab;
mod life;
mod network;
mod runtime;
mod traffic;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use nix::sched::CloneFlags;
use rig::{mounts, rights};

/// Prerequisites of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Namespaces,
    /// And several users.
    Users,
}

type Body = fn() -> Pin<Box<dyn Future<Output = ()>>>;
type Test = (&'static str, Needs, Body);

macro_rules! tests {
    ($($needs:ident $module:ident :: $name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)), Needs::$needs, || Box::pin($module::$name()))),*]
    };
}

const TESTS: &[Test] = &tests![
    Namespaces traffic::pods_reach_each_other_in_both_families,
    Namespaces traffic::a_pod_has_the_families_that_it_asks_for,
    Namespaces traffic::clusters_side_by_side_do_not_meet,
    Namespaces traffic::the_proxy_says_what_it_got,
    Users traffic::redirected_connections_pass_both_proxies,
    Users traffic::a_sink_answers_and_nothing_follows,
    Namespaces network::a_node_translates_again_after_a_boot_that_took_what_it_translated,
    Namespaces network::the_api_server_has_a_service_whose_address_nobody_has,
    Namespaces network::a_service_leads_to_a_pod_of_another_node,
    Namespaces life::a_deleted_pod_leaves_nothing,
    Namespaces life::a_pod_on_the_hosts_network_has_the_nodes_addresses,
    Namespaces life::init_containers_run_in_order_before_the_rest,
    Namespaces life::a_failing_init_container_fails_the_pod,
    Namespaces life::a_container_that_ends_is_reported,
    Namespaces life::a_container_with_a_root_of_its_own_sees_the_processes_of_its_node_alone,
    Namespaces files::what_a_container_may_write_follows_its_security_context,
    Namespaces life::pods_are_spread_over_nodes_as_their_selector_allows,
    Users life::processes_run_as_their_containers_user,
    Namespaces life::a_node_s_processes_end_with_it_and_nobody_waits,
    Namespaces hand::files_are_those_of_the_node_and_errors_say_which_is_not_there,
    Namespaces hand::no_path_leads_out_of_the_node,
    Namespaces hand::a_watch_of_networks_reads_each_as_it_comes,
    Namespaces hand::a_watch_tells_in_place_from_whole_and_follows_a_path_that_comes_later,
    Namespaces hand::a_capture_sees_a_datagram_on_the_loopback_of_a_pod_and_what_leaves_it,
    Users hand::a_program_has_the_capabilities_that_are_named_and_no_others,
    Namespaces hand::the_root_of_the_first_process_is_the_nodes_own,
    Namespaces hand::a_volume_of_a_directory_of_the_node_has_what_is_below_it,
    Namespaces hand::processes_have_the_nodes_numbers_and_the_hand_ends_with_the_node,
    Namespaces runtime::a_failing_chain_is_undone_and_can_be_tried_again,
    Namespaces runtime::a_failure_of_the_plugin_under_test_that_a_runtime_only_logs_is_left,
    Namespaces runtime::a_result_without_an_address_is_no_sandbox_unless_the_runtime_takes_it,
    Namespaces runtime::calls_carry_what_the_kubelet_sets,
    Namespaces runtime::check_status_and_gc_reach_the_plugins,
    Namespaces runtime::the_agent_serves_pods_and_misbehaves_on_request,
    Namespaces runtime::a_reboot_takes_all_of_run_and_the_programs_that_listened_there,
    Namespaces runtime::the_api_is_served_inside_the_node,
];

/// Deadline of a test: none takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some((name, _)) = rig::process::own_test() {
        mounts::tmpfs("/run");
        run(TESTS.iter().find(|test| test.0 == name).unwrap().2);
        return ExitCode::SUCCESS;
    }
    isolation::build_workload();
    let rights = rights::acquire(CloneFlags::CLONE_NEWNS);
    let unmet = |needs| match needs {
        Needs::Namespaces => rights.unmet(),
        Needs::Users => rights.unmet_users(),
    };
    rig::run(TESTS.iter().map(|&(name, needs, _)| rig::process::test(name, unmet(needs))))
}

fn run(body: Body) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, body()).await }).unwrap();
}
