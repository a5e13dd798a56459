// SPDX-License-Identifier: Apache-2.0
//! Gathers the answers while the agent runs, and asks once more at the end.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ask::ask;
use super::decide::{Answer, Decision, Observations, Reason, decide};
use super::own::OwnFacts;
use crate::api::Client;
use crate::settings::OwnPod;

/// What asking may take once the own pod is being deleted: it has 30 s in all, and what comes after has to fit in.
const AT_DELETION: Duration = Duration::from_secs(10);
/// What it may take at the end.
const AT_END: Duration = Duration::from_secs(4);

/// The answers so far.
#[derive(Debug, Default)]
struct Answers {
    start: Option<Answer>,
    deletion: Option<Answer>,
}

/// Finds out why the agent stops.
#[derive(Debug)]
pub struct Leave {
    client: Option<Client>,
    own: OwnPod,
    answers: Mutex<Answers>,
}

impl Leave {
    /// With no client nobody can be asked.
    #[must_use]
    pub fn new(client: Option<Client>, own: OwnPod) -> Self {
        Self { client, own, answers: Mutex::default() }
    }

    /// Asks at the start until something is said, and once more as soon as the own pod is being deleted.
    pub async fn watch(&self, mut own: watch::Receiver<OwnFacts>, cancel: CancellationToken) {
        let Some(client) = self.client.as_ref().filter(|_| self.knows_itself()) else { return };
        let asking = async {
            let start = async {
                let answer = ask(client, &self.own, Duration::MAX).await;
                self.tell_start(&answer);
                self.note(|answers| answers.start = Some(answer));
            };
            let deletion = async {
                if own.wait_for(|facts| facts.deleting).await.is_ok() {
                    let answer = ask(client, &self.own, AT_DELETION).await;
                    tracing::info!(target: "cni-agent", ?answer, "the own pod is being deleted; asked for the DaemonSet");
                    self.note(|answers| answers.deletion = Some(answer));
                }
            };
            tokio::join!(start, deletion);
        };
        cancel.run_until_cancelled(asking).await;
    }

    /// Keep or uninstall: asks a last time, within a few seconds.
    pub async fn conclude(&self, always_uninstall: bool) -> Decision {
        let knows_itself = self.knows_itself();
        let end = match &self.client {
            Some(client) if knows_itself && !always_uninstall => ask(client, &self.own, AT_END).await,
            _ => Answer::Silent("there is nobody to ask".to_owned()),
        };
        let Answers { start, deletion } = std::mem::take(&mut *self.lock());
        let start = start.unwrap_or_else(|| Answer::Silent("there was no answer since the start".to_owned()));
        let answers = std::iter::once(start).chain(deletion).chain([end]).collect();
        let decision = decide(&Observations { always_uninstall, knows_itself, answers });
        let (what, reason) = match &decision {
            Decision::Keep(reason) => ("what is installed stays", reason),
            Decision::Uninstall(reason) => ("what is installed is removed", reason),
        };
        tracing::info!(target: "cni-agent", %reason, "{what}");
        decision
    }

    fn knows_itself(&self) -> bool {
        !self.own.name.is_empty() && !self.own.namespace.is_empty()
    }

    fn tell_start(&self, answer: &Answer) {
        let (namespace, daemonset) = (&self.own.namespace, &self.own.daemonset);
        let reason = match answer {
            Answer::Gone => Reason::NeverThere,
            Answer::Forbidden => Reason::NeverAllowed,
            _ => {
                return tracing::debug!(target: "cni-agent", namespace, daemonset, ?answer, "asked for the DaemonSet");
            }
        };
        tracing::warn!(target: "cni-agent", namespace, daemonset, %reason, "the agent will uninstall whenever it stops");
    }

    fn note(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::testing::{Answer as Reply, Script};

    fn own(name: &str) -> OwnPod {
        let (namespace, daemonset) = ("mesh".to_owned(), "ds".to_owned());
        OwnPod { namespace, daemonset, name: name.to_owned(), ..OwnPod::default() }
    }

    fn there() -> Reply {
        Reply::new(200, r#"{"metadata": {"name": "ds"}}"#)
    }

    struct Run {
        script: Script,
        leave: Arc<Leave>,
        own: watch::Sender<OwnFacts>,
        task: tokio::task::JoinHandle<()>,
    }

    fn run(replies: Vec<Reply>) -> Run {
        let script = Script::new(replies);
        let leave = Arc::new(Leave::new(Some(script.client()), own("pod")));
        let (sender, receiver) = watch::channel(OwnFacts::default());
        let watching = Arc::clone(&leave);
        let task = tokio::spawn(async move { watching.watch(receiver, CancellationToken::new()).await });
        Run { script, leave, own: sender, task }
    }

    async fn asked(script: &Script, count: usize) {
        while script.asked().len() < count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_after_it_worked_is_an_uninstall() {
        let run = run(vec![there(), Reply::new(403, "")]);
        asked(&run.script, 1).await;
        tokio::task::yield_now().await;
        assert_eq!(run.leave.conclude(false).await, Decision::Uninstall(Reason::RightsGone));
        run.task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_at_the_deletion_outlives_a_server_that_falls_silent() {
        let run = run(vec![there(), Reply::new(404, "")]);
        asked(&run.script, 1).await;
        run.own.send_replace(OwnFacts { deleting: true, ..OwnFacts::default() });
        run.task.await.unwrap();
        assert_eq!(run.leave.conclude(false).await, Decision::Uninstall(Reason::Gone));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_keeps_everything_in_a_few_seconds() {
        let run = run(vec![]);
        let begin = tokio::time::Instant::now();
        assert!(matches!(run.leave.conclude(false).await, Decision::Keep(Reason::Silent(_))));
        assert!(begin.elapsed() <= AT_END + Duration::from_millis(10));
        run.task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_know_its_pod_asks_nobody() {
        let script = Script::new([]);
        let leave = Leave::new(Some(script.client()), own(""));
        leave.watch(watch::channel(OwnFacts::default()).1, CancellationToken::new()).await;
        assert_eq!(leave.conclude(false).await, Decision::Uninstall(Reason::Stranger));
        assert_eq!(leave.conclude(true).await, Decision::Uninstall(Reason::Always));
        assert_eq!(script.asked(), [""; 0]);
    }
}
