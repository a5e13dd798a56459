// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use super::super::decide::Watched;
use super::*;
use crate::api::Token;
use crate::api::testing::{Script, Scripted as Reply};

fn own(name: &str) -> OwnPod {
    let (namespace, daemonset) = ("mesh".to_owned(), "ds".to_owned());
    OwnPod { namespace, daemonset, name: name.to_owned(), ..OwnPod::default() }
}

/// Responses: the DaemonSet, its namespace.
fn there() -> [Reply; 2] {
    [Reply::new(200, r#"{"metadata": {"name": "ds"}}"#), namespace("Active")]
}

fn namespace(phase: &str) -> Reply {
    Reply::new(200, format!(r#"{{"metadata": {{"name": "mesh"}}, "status": {{"phase": "{phase}"}}}}"#))
}

fn refused(count: usize, token: Token) -> impl Iterator<Item = Reply> {
    std::iter::repeat_with(move || Reply::refusing(token)).take(count)
}

struct Run {
    script: Script,
    leave: Arc<Leave>,
    own: watch::Sender<OwnFacts>,
    task: tokio::task::JoinHandle<()>,
}

impl Run {
    /// An agent that has asked once, at its start; then the server says `replies`.
    async fn started(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script::new(there().into_iter().chain(replies));
        let (sender, receiver) = watch::channel(OwnFacts::default());
        let leave = Arc::new(Leave::new(Some(script.client()), own("pod"), receiver));
        let watching = Arc::clone(&leave);
        let task = tokio::spawn(async move { watching.watch(CancellationToken::new()).await });
        while leave.lock().start.is_none() {
            tokio::task::yield_now().await;
        }
        Self { script, leave, own: sender, task }
    }

    fn watched(&self, watched: Watched, grace: u64) {
        let grace = Some(Duration::from_secs(grace));
        self.leave.seen.send_replace(WatchedDaemonSet { watched, grace, ..WatchedDaemonSet::default() });
    }

    /// Decision and its duration.
    async fn end(self) -> (Decision, Duration) {
        let begin = Instant::now();
        let decision = self.leave.conclude(false).await;
        self.task.abort();
        (decision, begin.elapsed())
    }
}

const LIVE: Watched = Watched::There { live: true };

#[tokio::test(start_paused = true)]
async fn a_daemonset_that_is_there_keeps_at_once() {
    let run = Run::started(there()).await;
    assert_eq!(run.end().await, (Decision::Keep(LeaveReason::Wanted), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_watch_saw_outlives_account_and_rights() {
    for (watched, reason) in [(Watched::Gone, LeaveReason::Gone), (Watched::Deleting, LeaveReason::Deleting)]
    {
        for reply in [Reply::refusing(Token::Proven), Reply::refusing(Token::Unproven), Reply::new(403, "")] {
            let run = Run::started([reply, Reply::refusing(Token::Proven)]).await;
            run.watched(watched, 30);
            assert_eq!(run.end().await, (Decision::Uninstall(reason.clone()), Duration::ZERO));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_comes_while_it_is_asked_ends_the_asking() {
    let run = Run::started(refused(10, Token::Proven)).await;
    run.watched(LIVE, 30);
    let leave = Arc::clone(&run.leave);
    let deleted = async {
        pause(Duration::from_millis(1250)).await;
        leave.seen.send_modify(|seen| seen.watched = Watched::Gone);
    };
    let ((decision, took), ()) = tokio::join!(run.end(), deleted);
    assert_eq!((decision, took), (Decision::Uninstall(LeaveReason::Gone), Duration::from_millis(1250)));
}

#[tokio::test(start_paused = true)]
async fn an_account_that_is_gone_is_an_uninstall_within_the_grace_period() {
    for (watched, grace, at_most) in [(Watched::Unknown, 30, 12), (LIVE, 30, 20), (LIVE, 5, 3)] {
        let run = Run::started(refused(100, Token::Proven)).await;
        run.watched(watched, grace);
        let (decision, took) = run.end().await;
        assert_eq!(decision, Decision::Uninstall(LeaveReason::AccountGone));
        assert!(took <= Duration::from_secs(at_most), "{watched:?} {grace}: {took:?}");
    }
}

/// The facts of the own pod after some seconds, and what becomes of an agent whose token is refused from then on.
async fn ended(facts: OwnFacts, seconds: u64) -> Decision {
    let run = Run::started(refused(200, Token::Proven)).await;
    run.watched(LIVE, 30);
    run.own.send_replace(facts);
    pause(Duration::from_secs(seconds)).await;
    run.end().await.0
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_pod_and_says_nothing_of_its_account() {
    let deleting = OwnFacts { deleting: true, ..OwnFacts::default() };
    let gone = OwnFacts { gone: true, ..deleting };
    for (facts, seconds) in [(gone, 1), (deleting, 76)] {
        let decision = ended(facts, seconds).await;
        assert!(matches!(decision, Decision::Keep(_)), "{facts:?} {seconds}: {decision:?}");
    }
    assert_eq!(ended(deleting, 46).await, Decision::Uninstall(LeaveReason::AccountGone));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_after_a_cut_may_have_ended_with_its_pod() {
    for told_since in [false, true] {
        let run = Run::started(refused(200, Token::Proven)).await;
        run.watched(Watched::There { live: false }, 30);
        run.leave.seen.send_modify(|seen| seen.cut = !told_since);
        let (decision, took) = run.end().await;
        if told_since {
            assert_eq!(decision, Decision::Uninstall(LeaveReason::AccountGone));
        } else {
            assert!(matches!(decision, Decision::Keep(LeaveReason::Silent(_))), "{decision:?}");
            assert!(took <= Duration::from_secs(5), "{took:?}");
        }
    }
}

/// As when signing keys are rotated: the API server ends all watches in good order, and refuses every token that it did not sign.
#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_since_the_watch_ended_early_may_be_of_other_keys() {
    use crate::metrics::RestartReason::{Ended, Unauthorized};
    let hear = |leave: &Leave, reason, early| {
        let lost = Change::Lost(crate::api::Lost { reason, error: None, early });
        leave.seen.send_modify(|seen| *seen = seen.clone().hear(lost));
    };
    for (early, want) in [
        (true, Decision::Keep(LeaveReason::Silent(format!("401, and {}", Token::Doubtful)))),
        (false, Decision::Uninstall(LeaveReason::AccountGone)),
    ] {
        let run = Run::started(refused(200, Token::Proven)).await;
        run.watched(LIVE, 30);
        hear(&run.leave, Ended, early);
        hear(&run.leave, Unauthorized, false);
        assert_eq!(run.end().await.0, want, "{early}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_accepted_for_something_else_has_an_account() {
    let accepted = (0..50).flat_map(|_| [Reply::refusing(Token::Proven), namespace("Active")]);
    let run = Run::started(accepted).await;
    run.watched(LIVE, 30);
    let (decision, took) = run.end().await;
    assert_eq!(decision, Decision::Keep(LeaveReason::Silent(format!("401, and {}", Token::Accepted))));
    assert!((Duration::from_secs(10)..Duration::from_secs(13)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_a_daemonset_that_was_deleted_says_nothing_of_its_successor() {
    for (successor, want) in [(0, true), (1, false)] {
        let gone = [Reply::absent("daemonsets.apps", "ds")];
        let run = Run::started(gone.into_iter().chain((0..99).map(|_| Reply::new(503, "")))).await;
        run.own.send_replace(OwnFacts { deleting: true, ..OwnFacts::default() });
        while run.leave.lock().later.is_empty() {
            tokio::task::yield_now().await;
        }
        run.leave.seen.send_modify(|seen| (seen.watched, seen.successors) = (LIVE, successor));
        let (decision, _) = run.end().await;
        assert_eq!(decision == Decision::Uninstall(LeaveReason::Gone), want, "{successor}: {decision:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_deletion_that_the_watch_reported_is_asked_for_again() {
    let late = |body: &'static str| {
        let (sender, reply) = Reply::streamed();
        let send = async move {
            pause(Duration::from_millis(500)).await;
            sender.unbounded_send(Ok(body.into())).unwrap();
        };
        (reply.to("daemonsets"), send)
    };
    let (reply, send) = late(r#"{"metadata": {"name": "ds"}}"#);
    let again = [namespace("Active").to("namespaces/mesh"), Reply::absent("daemonsets.apps", "ds")];
    let run = Run::started([reply].into_iter().chain(again)).await;
    run.watched(LIVE, 30);
    let leave = Arc::clone(&run.leave);
    let deleted = async {
        pause(Duration::from_millis(250)).await;
        leave.seen.send_modify(|seen| seen.watched = Watched::Deleting);
    };
    let ((decision, _), (), ()) = tokio::join!(run.end(), send, deleted);
    assert_eq!(decision, Decision::Uninstall(LeaveReason::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expired_is_silence() {
    for token in [Token::Expired, Token::Unbound, Token::Unproven, Token::Doubtful] {
        let run = Run::started(refused(100, token)).await;
        run.watched(LIVE, 30);
        let (decision, took) = run.end().await;
        assert!(matches!(decision, Decision::Keep(LeaveReason::Silent(_))), "{decision:?}");
        assert!(took <= Duration::from_secs(5), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_passes_is_none() {
    let refusals = || (0..4).map(|_| Reply::new(403, ""));
    let run = Run::started(refusals().chain(there())).await;
    assert_eq!(run.end().await.0, Decision::Keep(LeaveReason::Wanted));
    let run = Run::started(refusals().chain([Reply::absent("daemonsets.apps", "ds")])).await;
    assert_eq!(run.end().await.0, Decision::Uninstall(LeaveReason::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_lasts_is_an_uninstall() {
    let run = Run::started((0..100).map(|_| Reply::new(403, ""))).await;
    run.watched(Watched::There { live: false }, 30);
    let (decision, took) = run.end().await;
    assert_eq!(decision, Decision::Uninstall(LeaveReason::RightsGone));
    assert!((Duration::from_secs(10)..Duration::from_secs(13)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_takes_the_daemonset_with_it() {
    let [daemonset, _] = there();
    let run = Run::started([daemonset, namespace("Terminating")]).await;
    run.watched(LIVE, 30);
    assert_eq!(run.end().await, (Decision::Uninstall(LeaveReason::NamespaceDeleting), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_may_not_be_asked_for_gives_the_watch_a_few_seconds() {
    let unconfirmed = || {
        let [daemonset, _] = there();
        [daemonset, Reply::new(403, "")]
    };
    let run = Run::started((0..20).flat_map(|_| unconfirmed())).await;
    run.watched(LIVE, 30);
    let (decision, took) = run.end().await;
    assert_eq!(decision, Decision::Keep(LeaveReason::Wanted));
    assert!(took <= Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_said_at_the_deletion_outlives_a_server_that_falls_silent() {
    let run = Run::started([Reply::absent("daemonsets.apps", "ds")]).await;
    run.own.send_replace(OwnFacts { deleting: true, ..OwnFacts::default() });
    while run.leave.lock().later.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(run.end().await.0, Decision::Uninstall(LeaveReason::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_keeps_everything_in_a_few_seconds() {
    for grace in [None, Some(30), Some(1)] {
        let run = Run::started([]).await;
        if let Some(grace) = grace {
            run.watched(LIVE, grace);
        }
        let script = run.script.clone();
        let (decision, took) = run.end().await;
        assert!(matches!(decision, Decision::Keep(LeaveReason::Silent(_))), "{decision:?}");
        assert!(took <= Duration::from_millis(5500) && script.asked().len() >= 4, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_know_its_pod_asks_nobody() {
    let script = Script::new([]);
    let leave = Leave::new(Some(script.client()), own(""), watch::channel(OwnFacts::default()).1);
    leave.watch(CancellationToken::new()).await;
    leave.follow(&Metrics::default(), &CancellationToken::new()).await;
    assert_eq!(leave.conclude(false).await, Decision::Uninstall(LeaveReason::Stranger));
    assert_eq!(leave.conclude(true).await, Decision::Uninstall(LeaveReason::Always));
    assert_eq!(script.asked(), [""; 0]);
}

#[tokio::test]
async fn without_a_client_everything_stays() {
    let leave = Leave::new(None, own("pod"), watch::channel(OwnFacts::default()).1);
    assert!(matches!(leave.conclude(false).await, Decision::Keep(LeaveReason::Silent(_))));
    assert_eq!(leave.conclude(true).await, Decision::Uninstall(LeaveReason::Always));
}
