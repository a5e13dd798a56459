// SPDX-License-Identifier: Apache-2.0
//! Looks, and what is counted of them.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::*;
use crate::conflist::networks::Networks;
use crate::conflist::plan::{FileMode, NotRight};
use crate::events;
use crate::metrics::{Exposition, Metrics};
use crate::readiness::Readiness;
use crate::settings;

struct Bench {
    judge: Judge,
    context: InstallContext,
    now: Instant,
    looks: i32,
}

impl Bench {
    fn new() -> Self {
        let settings = Arc::new(settings::load(BTreeMap::new(), &BTreeMap::new(), |_| false).settings);
        let metrics = Metrics::default();
        let (events, _writer) = events::channel(metrics.clone(), "n1");
        let (_, settings) = watch::channel(settings);
        let context = InstallContext {
            settings,
            readiness: Readiness::default(),
            metrics,
            events,
            runtime: Runtime::new(Readiness::default()),
            installs: watch::channel(true).0,
        };
        Self { judge: Judge::default(), context, now: Instant::now(), looks: 0 }
    }

    /// A look that went by these excluded namespaces and took these steps, a moment after the last one.
    fn look(&mut self, excluded: &str, report: PassReport) {
        self.now += Duration::from_millis(50);
        let mut settings = self.context.settings.borrow().as_ref().clone();
        settings.entry.exclude_namespaces = vec![excluded.to_owned()];
        // Our entry does not say this.
        self.looks += 1;
        settings.repair.exit_code = self.looks;
        let look = Look { settings: Arc::new(settings), report, begun: self.now, since: self.now };
        self.judge.judge(&look, &self.context);
    }

    #[track_caller]
    fn has(&self, samples: &[&str]) {
        let text = self.context.metrics.scrape(Exposition::Prometheus).unwrap();
        for sample in samples {
            assert!(text.lines().any(|line| line == *sample), "{sample} is not in\n{text}");
        }
    }
}

fn write() -> Step {
    Step::Write { name: "10.conflist".to_owned(), text: String::new(), mode: FileMode::Ours }
}

fn right(wrote: bool) -> PassReport {
    PassReport {
        binaries: Ok(Written::Not),
        kubeconfig: Ok(Written::Not),
        conflist: Ok("10.conflist".to_owned()),
        steps: wrote.then(write).into_iter().collect(),
        rival: Rival::Unknown,
        unchanged: None,
        networks: Networks::default(),
    }
}

#[test]
fn what_the_settings_change_is_no_heal_and_no_fight() {
    let mut bench = Bench::new();
    for excluded in ["a", "b", "c", "d", "e", "f", "g"] {
        bench.look(excluded, right(true));
        bench.look(excluded, right(false));
    }
    bench.has(&["millrace_heal_seconds_count 0", "millrace_conflist_fights_total 0"]);
    assert_eq!(bench.judge.permits(bench.now).conflist, Touch::Now);
}

#[test]
fn what_somebody_undoes_is_a_heal_and_in_the_end_a_fight() {
    let mut bench = Bench::new();
    bench.look("a", right(true));
    for _ in 0..4 {
        bench.look("a", right(true));
    }
    bench.has(&["millrace_heal_seconds_count 4", "millrace_conflist_fights_total 0"]);
    bench.look("b", right(true));
    assert_eq!(bench.judge.permits(bench.now).conflist, Touch::Now);
    bench.look("b", right(true));
    bench.has(&["millrace_heal_seconds_count 5", "millrace_conflist_fights_total 1"]);
    assert!(matches!(bench.judge.permits(bench.now).conflist, Touch::Later(_)));
}

#[test]
fn whoever_reverts_each_write_of_a_pass_is_fought_after_two() {
    let mut bench = Bench::new();
    bench.look("a", right(true));
    let restless =
        || PassReport { conflist: Err(ConflistError::Restless), steps: vec![write(); 4], ..right(false) };
    bench.look("a", restless());
    bench.has(&["millrace_conflist_fights_total 0"]);
    bench.look("a", restless());
    bench.has(&["millrace_heal_seconds_count 0", "millrace_conflist_fights_total 1"]);
    assert!(matches!(bench.judge.permits(bench.now).conflist, Touch::Later(_)));
}

#[test]
fn whoever_makes_a_file_again_that_is_removed_is_fought_as_well() {
    let mut bench = Bench::new();
    bench.look("a", right(true));
    for _ in 0..5 {
        let again = vec![Step::Remove { name: "10.conf".to_owned() }];
        bench.look("a", PassReport { steps: again, ..right(false) });
    }
    bench.has(&["millrace_conflist_fights_total 1"]);
    assert!(matches!(bench.judge.permits(bench.now).conflist, Touch::Later(_)));
}

#[test]
fn whoever_replaces_a_file_of_ours_again_and_again_is_fought_over_that_alone() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        assert_eq!(bench.judge.permits(bench.now), Permits::ALL);
        bench.look("a", PassReport { binaries: Ok(Written::Again), ..right(false) });
    }
    let permits = bench.judge.permits(bench.now);
    let Touch::Later(why) = permits.files else { panic!("{permits:?}") };
    assert!(why.contains("the plugin's binary"), "{why}");
    assert_eq!(permits.conflist, Touch::Now);
    bench.has(&["millrace_conflist_fights_total 0"]);
}

#[test]
fn each_process_tells_once_that_it_is_installed_and_again_when_it_is_again() {
    let success = |count: u32| format!("istio_cni_installs_total{{result=\"SUCCESS\"}} {count}");
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.look("a", right(false));
        bench.has(&[&success(1)]);
    }
    let lost = ConflistError::NotRight(NotRight::NoPrimary, "/etc/cni/net.d".into());
    bench.look("a", PassReport { conflist: Err(lost), ..right(false) });
    bench.look("a", right(false));
    bench.has(&[&success(2)]);
}

#[test]
fn a_failure_is_counted_at_each_look() {
    let mut bench = Bench::new();
    for count in 1..4 {
        bench.look(
            "a",
            PassReport {
                conflist: Err(ConflistError::NotRight(NotRight::NoPrimary, "/etc/cni/net.d".into())),
                ..right(false)
            },
        );
        bench.has(&[&format!("istio_cni_installs_total{{result=\"CREATE_CNI_CONFIG_FAILURE\"}} {count}")]);
    }
}
