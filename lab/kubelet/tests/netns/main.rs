// SPDX-License-Identifier: Apache-2.0
//! Clusters of real namespaces, processes and packets, inside namespaces of the test's own.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test with a main of its own")]

mod isolation;
mod lab;
mod life;
mod runtime;
mod traffic;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isolation::Rights;

/// Prerequisites of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Namespaces,
    /// And several users.
    Users,
}

type Body = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;
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
    Namespaces life::a_deleted_pod_leaves_nothing,
    Namespaces life::init_containers_run_in_order_before_the_rest,
    Namespaces life::a_failing_init_container_fails_the_pod,
    Namespaces life::a_container_that_ends_is_reported,
    Namespaces life::a_container_with_a_root_of_its_own_sees_the_processes_of_its_node_alone,
    Namespaces life::pods_are_spread_over_nodes_as_their_selector_allows,
    Users life::processes_run_as_their_containers_user,
    Namespaces life::a_node_s_processes_end_with_it_and_nobody_waits,
    Namespaces runtime::a_failing_chain_is_undone_and_can_be_tried_again,
    Namespaces runtime::calls_carry_what_the_kubelet_sets,
    Namespaces runtime::check_status_and_gc_reach_the_plugins,
    Namespaces runtime::the_agent_serves_pods_and_misbehaves_on_request,
    Namespaces runtime::the_api_is_served_inside_the_node,
];

/// Deadline of a test: none takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(60);

enum Outcome {
    Passed,
    Failed,
    Ignored(&'static str),
}

fn main() -> ExitCode {
    let rights = match isolation::enter() {
        Ok(rights) => rights,
        Err(code) => return code,
    };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, needs, body) in TESTS.iter().filter(|(name, ..)| chosen(name)) {
        let started = Instant::now();
        let outcome = run(*needs, *body, &rights);
        let took = started.elapsed();
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Ignored(_) if std::env::var_os("CI").is_none() => ignored += 1,
            Outcome::Failed | Outcome::Ignored(_) => failed += 1,
        }
        match outcome {
            Outcome::Passed => println!("test {name} ... ok ({took:.0?})"),
            Outcome::Failed => println!("test {name} ... FAILED ({took:.0?})"),
            Outcome::Ignored(reason) => println!("test {name} ... not run, {reason}"),
        }
    }
    if let Rights::None(reason) = rights {
        println!("{reason}");
    }
    println!("\nkubelet netns tests: {passed} passed, {failed} failed, {ignored} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(needs: Needs, body: Body, rights: &Rights) -> Outcome {
    match (rights, needs) {
        (Rights::None(_), _) => return Outcome::Ignored("needs namespaces"),
        (Rights::OneUser, Needs::Users) => return Outcome::Ignored("needs root, or a range of users"),
        _ => {}
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A task of its own, so that a panic is caught.
    let ended = runtime.block_on(async { tokio::spawn(tokio::time::timeout(LIMIT, body())).await });
    if matches!(ended, Ok(Ok(()))) { Outcome::Passed } else { Outcome::Failed }
}
