// SPDX-License-Identifier: Apache-2.0
//! Clusters of real namespaces, processes and packets, inside namespaces of the test's own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test with a main of its own"
)]

mod isolation;
mod lab;
mod life;
mod runtime;
mod traffic;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()> + Send>>);

macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)), || Box::pin($module::$name()))),*]
    };
}

const TESTS: &[Test] = &tests![
    traffic::pods_reach_each_other_in_both_families,
    traffic::a_pod_has_the_families_that_it_asks_for,
    traffic::clusters_side_by_side_do_not_meet,
    traffic::the_proxy_says_what_it_got,
    traffic::redirected_connections_pass_both_proxies,
    traffic::a_sink_answers_and_nothing_follows,
    life::a_deleted_pod_leaves_nothing,
    life::init_containers_run_in_order_before_the_rest,
    life::a_failing_init_container_fails_the_pod,
    life::a_container_that_ends_is_reported,
    life::processes_run_as_their_containers_user,
    runtime::a_failing_chain_is_undone_and_can_be_tried_again,
    runtime::calls_carry_what_the_kubelet_sets,
    runtime::check_status_and_gc_reach_the_plugins,
    runtime::the_agent_serves_pods_and_misbehaves_on_request,
    runtime::the_api_is_served_inside_the_node,
];

/// No test takes a tenth of this; one that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some(code) = isolation::enter() {
        return code;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| chosen(name)) {
        let started = Instant::now();
        // A task of its own, so that a panic is caught.
        let ended = runtime.block_on(async { tokio::spawn(tokio::time::timeout(LIMIT, test())).await });
        let good = matches!(ended, Ok(Ok(())));
        failed += usize::from(!good);
        println!("test {name} ... {} ({:.0?})", if good { "ok" } else { "FAILED" }, started.elapsed());
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
