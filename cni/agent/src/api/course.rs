// SPDX-License-Identifier: Apache-2.0
//! State machine of list and watch: the next step after one ended, and its delay. Pure: the time is an argument and only has to be
//! monotonic.

use std::time::Duration;

use super::error::ApiError;
use super::resource::Freshness;
use crate::metrics::RestartReason;

/// First backoff; doubles with each further failure.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Maximum backoff.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A watch that lasted so long, or carried an event, resets the backoff.
const GOOD_WATCH: Duration = Duration::from_secs(10);

/// Malformed responses in a row before a relist.
const UNREADABLE: u32 = 3;

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// All pages of a list are read, at `version`.
    Listed {
        version: String,
    },
    /// The server closed the watch in good order.
    Ended,
    /// The watch broke off.
    Broken,
    /// The watch was silent for too long.
    Stalled,
    Failed(ApiError),
}

impl StepOutcome {
    /// Reason of the restart, if there is one.
    pub(super) fn reason(&self) -> Option<RestartReason> {
        Some(match self {
            Self::Listed { .. } => return None,
            Self::Ended => RestartReason::Ended,
            Self::Broken | Self::Failed(ApiError::Unreachable(_)) => RestartReason::Disconnected,
            Self::Stalled => RestartReason::Stalled,
            Self::Failed(ApiError::Unauthorized(_)) => RestartReason::Unauthorized,
            Self::Failed(ApiError::Forbidden(_)) => RestartReason::Forbidden,
            Self::Failed(ApiError::Gone(_) | ApiError::TooLargeVersion(_)) => RestartReason::Expired,
            Self::Failed(ApiError::Throttled { .. }) => RestartReason::Throttled,
            Self::Failed(ApiError::Server { .. }) => RestartReason::ServerError,
            Self::Failed(ApiError::Malformed(_)) => RestartReason::Malformed,
            Self::Failed(ApiError::NotFound(_) | ApiError::Conflict(_) | ApiError::Refused { .. }) => {
                RestartReason::Refused
            }
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FollowStep {
    /// List.
    List(Freshness),
    /// Streaming list: a watch with initial events, which goes on.
    Stream(Freshness),
    /// Watch from this version.
    Watch { from: String },
}

/// A step, and its delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) after: Duration,
    pub(super) step: FollowStep,
}

/// Seeded random numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in `low..=high`. The constants are those of SplitMix64.
    pub(super) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = ((mixed ^ (mixed >> 31)) >> 40) as f64 / (1_u64 << 24) as f64;
        low + high.saturating_sub(low).mul_f64(part)
    }
}

/// Support of streaming lists (`sendInitialEvents`), which cost the server no page of memory. `WatchList` is on in Kubernetes 1.32 and,
/// after a release without, from 1.34 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streams {
    Wanted,
    /// The last one did not come to its end: the next list is an ordinary one.
    Paused,
    /// Not supported by the server.
    Refused,
}

/// State.
#[derive(Debug, Clone)]
pub(super) struct FollowCourse {
    /// Version up to which everything was sent.
    version: Option<String>,
    /// Everything has to be read, and how fresh; `None` while the watch tells of what changes.
    unread: Option<Freshness>,
    streams: Streams,
    failures: u32,
    unreadable: u32,
    /// Start of the step, and whether it carried an event.
    began: Duration,
    had_event: bool,
    dice: Dice,
}

impl FollowCourse {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            version: None,
            unread: Some(Freshness::AtHand),
            streams: Streams::Wanted,
            failures: 0,
            unreadable: 0,
            began: Duration::ZERO,
            had_event: false,
            dice: Dice::new(seed),
        }
    }

    pub(super) fn first(&self) -> Next {
        Next { after: Duration::ZERO, step: self.step() }
    }

    pub(super) fn begin(&mut self, now: Duration) {
        self.began = now;
        self.had_event = false;
    }

    pub(super) fn reach(&mut self, version: String) {
        self.version = Some(version);
        self.had_event = true;
        self.unreadable = 0;
    }

    pub(super) fn list(&mut self, version: String) {
        self.unread = None;
        if self.streams == Streams::Paused {
            self.streams = Streams::Wanted;
        }
        self.version = Some(version);
    }

    /// Next step after `outcome`.
    pub(super) fn decide(&mut self, outcome: &StepOutcome, now: Duration) -> Next {
        let at_once = |course: &Self| Next { after: Duration::ZERO, step: course.step() };
        if self.is_without_streams(outcome) {
            self.streams = Streams::Refused;
            return at_once(self);
        }
        if matches!(self.step(), FollowStep::Stream(_)) {
            self.streams = after_stream(outcome);
        }
        let lasted = self.had_event || now.saturating_sub(self.began) >= GOOD_WATCH;
        let good = lasted && self.unread.is_none();
        let mut least = Duration::ZERO;
        match outcome {
            StepOutcome::Listed { version } => {
                // A list that is followed by a watch that fails at once is no progress: failures stay counted.
                self.list(version.clone());
                return at_once(self);
            }
            StepOutcome::Ended if good => {
                self.failures = 0;
                return at_once(self);
            }
            // Not even a bookmark came: a server whose etcd was restored from a backup may not have that version yet, and tells a watch nothing.
            StepOutcome::Stalled if good && !self.had_event => {
                self.failures = 0;
                self.anew();
                // Many agents find out at about the same time, and none of them is in a hurry.
                least = self.dice.between(Duration::ZERO, LONGEST_WAIT);
            }
            StepOutcome::Broken | StepOutcome::Stalled if good => self.failures = 0,
            StepOutcome::Ended | StepOutcome::Broken | StepOutcome::Stalled => {}
            StepOutcome::Failed(ApiError::Gone(_)) => self.anew(),
            // A list of at least this version would be refused for the same reason.
            StepOutcome::Failed(ApiError::TooLargeVersion(_)) => self.unread = Some(Freshness::Latest),
            StepOutcome::Failed(ApiError::Malformed(_)) => {
                self.unreadable += 1;
                if self.unreadable >= UNREADABLE {
                    self.anew();
                }
            }
            StepOutcome::Failed(error) => least = error.retry_after().unwrap_or_default(),
        }
        let after = self.wait(least);
        self.failures = self.failures.saturating_add(1);
        Next { after, step: self.step() }
    }

    /// True if the server does not support streaming lists: nothing is lost by that.
    pub(super) fn is_without_streams(&self, outcome: &StepOutcome) -> bool {
        match (self.step(), outcome) {
            (FollowStep::Stream(_), StepOutcome::Failed(ApiError::Refused { .. })) => true,
            // The server would, and its etcd cannot (before 3.4.31, and 3.5 before 3.5.13). It has no code of its own for that.
            (FollowStep::Stream(_), StepOutcome::Failed(ApiError::Server { message, .. })) => {
                message.contains("RequestWatchProgress is disabled")
            }
            _ => false,
        }
    }

    /// Relists. First `NotOlderThan`, which the server's watch cache answers. Only if that is rejected as well, the most recent, which
    /// costs etcd a read. A thousand agents lose their watches in the same moment.
    fn anew(&mut self) {
        self.unreadable = 0;
        self.unread = Some(match (&self.unread, &self.version) {
            (None, Some(version)) => Freshness::NotOlderThan(version.clone()),
            _ => Freshness::Latest,
        });
    }

    fn step(&self) -> FollowStep {
        match (&self.unread, &self.version) {
            (None, Some(from)) => FollowStep::Watch { from: from.clone() },
            (Some(freshness), _) if self.streams == Streams::Wanted => FollowStep::Stream(freshness.clone()),
            (Some(freshness), _) => FollowStep::List(freshness.clone()),
            (None, None) => FollowStep::List(Freshness::AtHand),
        }
    }

    /// From half of the whole wait to all of it, and the server's wish comes first: a thousand agents that fail together must not come
    /// back together.
    fn wait(&mut self, least: Duration) -> Duration {
        let whole = FIRST_WAIT.saturating_mul(1 << self.failures.min(16)).min(LONGEST_WAIT);
        least + self.dice.between(whole / 2, whole)
    }
}

/// Support of streaming lists after one that did not complete.
fn after_stream(outcome: &StepOutcome) -> Streams {
    use ApiError::{Forbidden, Gone, Throttled, TooLargeVersion, Unauthorized};
    match outcome {
        // Its end never comes: a server that ignores what it does not know, or somebody in between who holds events back.
        StepOutcome::Stalled => Streams::Refused,
        StepOutcome::Failed(
            Gone(_) | TooLargeVersion(_) | Throttled { .. } | Unauthorized(_) | Forbidden(_),
        ) => Streams::Wanted,
        _ => Streams::Paused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn failed(code: u16) -> StepOutcome {
        let code = http::StatusCode::from_u16(code).unwrap();
        StepOutcome::Failed(ApiError::of_answer(code, &http::HeaderMap::new(), b""))
    }

    fn listed(version: &str) -> StepOutcome {
        StepOutcome::Listed { version: version.to_owned() }
    }

    fn watch(from: &str) -> FollowStep {
        FollowStep::Watch { from: from.to_owned() }
    }

    fn not_older_than(version: &str) -> Freshness {
        Freshness::NotOlderThan(version.to_owned())
    }

    fn without_streams() -> FollowCourse {
        let mut course = FollowCourse::new(1);
        assert_eq!(
            course.first(),
            Next { after: Duration::ZERO, step: FollowStep::Stream(Freshness::AtHand) }
        );
        let list = Next { after: Duration::ZERO, step: FollowStep::List(Freshness::AtHand) };
        assert_eq!(course.decide(&failed(422), SECOND), list);
        course
    }

    fn watching() -> FollowCourse {
        let mut course = without_streams();
        assert_eq!(course.decide(&listed("1"), SECOND), Next { after: Duration::ZERO, step: watch("1") });
        course.begin(Duration::ZERO);
        course
    }

    #[test]
    fn an_ended_watch_goes_on_from_what_it_told_last() {
        let mut course = watching();
        course.reach("5".to_owned());
        let next = course.decide(&StepOutcome::Ended, SECOND);
        assert_eq!(next, Next { after: Duration::ZERO, step: watch("5") });
    }

    #[test]
    fn a_watch_that_ends_at_once_is_not_asked_for_in_a_row() {
        let mut course = watching();
        let mut waited = Duration::ZERO;
        for _ in 0..8 {
            course.begin(waited);
            let next = course.decide(&StepOutcome::Ended, waited);
            assert_eq!(next.step, watch("1"));
            waited += next.after;
        }
        assert!(waited > Duration::from_secs(20), "{waited:?}");
    }

    #[test]
    fn a_forgotten_version_leads_to_a_list_that_is_not_older_and_only_a_second_refusal_to_what_is_true_now() {
        let mut course = watching();
        let next = course.decide(&failed(410), SECOND);
        assert_eq!(next.step, FollowStep::List(not_older_than("1")));
        assert!(next.after <= FIRST_WAIT);
        // The list fails: nothing but another list can follow.
        assert_eq!(course.decide(&failed(500), SECOND).step, FollowStep::List(not_older_than("1")));
        assert_eq!(course.decide(&failed(410), SECOND).step, FollowStep::List(Freshness::Latest));
        assert_eq!(course.decide(&failed(500), SECOND).step, FollowStep::List(Freshness::Latest));
        assert_eq!(course.decide(&listed("9"), SECOND).step, watch("9"));
        assert_eq!(course.decide(&failed(410), SECOND).step, FollowStep::List(not_older_than("9")), "anew");
    }

    #[test]
    fn a_version_from_the_future_leads_to_what_is_true_now() {
        let future = StepOutcome::Failed(ApiError::TooLargeVersion(String::new()));
        assert_eq!(watching().decide(&future, SECOND).step, FollowStep::List(Freshness::Latest));
        let mut course = watching();
        course.decide(&failed(410), SECOND);
        assert_eq!(course.decide(&future, SECOND).step, FollowStep::List(Freshness::Latest));
    }

    #[test]
    fn a_streamed_list_is_a_watch_once_it_is_told() {
        let mut course = FollowCourse::new(1);
        course.begin(Duration::ZERO);
        course.list("4".to_owned());
        course.reach("5".to_owned());
        assert_eq!(
            course.decide(&StepOutcome::Ended, SECOND),
            Next { after: Duration::ZERO, step: watch("5") }
        );
        assert_eq!(course.decide(&failed(410), SECOND).step, FollowStep::Stream(not_older_than("5")));
        assert_eq!(course.decide(&failed(410), SECOND).step, FollowStep::Stream(Freshness::Latest));
    }

    #[test]
    fn a_server_that_refuses_to_stream_lists_is_asked_once() {
        let of_etcd = r#"{"kind":"Status","code":500,"message":"a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled"}"#;
        let of_etcd = ApiError::of_answer(
            http::StatusCode::INTERNAL_SERVER_ERROR,
            &http::HeaderMap::new(),
            of_etcd.as_bytes(),
        );
        for refusal in [failed(400), failed(422), StepOutcome::Failed(of_etcd), StepOutcome::Stalled] {
            let mut course = FollowCourse::new(1);
            assert_eq!(
                course.decide(&refusal, SECOND).step,
                FollowStep::List(Freshness::AtHand),
                "{refusal:?}"
            );
            assert_eq!(course.decide(&listed("1"), SECOND).step, watch("1"));
            assert_eq!(course.decide(&failed(410), SECOND).step, FollowStep::List(not_older_than("1")));
        }
    }

    #[test]
    fn a_streamed_list_that_breaks_off_is_followed_by_an_ordinary_one_and_tried_again_another_time() {
        let unreachable = StepOutcome::Failed(ApiError::Unreachable(String::new()));
        for outcome in [failed(500), StepOutcome::Broken, StepOutcome::Ended, unreachable] {
            let mut course = FollowCourse::new(1);
            course.begin(Duration::ZERO);
            let next = course.decide(&outcome, GOOD_WATCH);
            assert_eq!(next.step, FollowStep::List(Freshness::AtHand), "{outcome:?}");
            assert!(next.after > Duration::ZERO, "{outcome:?}: nothing was told, however long it took");
            course.decide(&listed("1"), SECOND);
            assert_eq!(course.decide(&failed(410), SECOND).step, FollowStep::Stream(not_older_than("1")));
        }
        for code in [401, 403, 429] {
            let step = FollowCourse::new(1).decide(&failed(code), SECOND).step;
            assert_eq!(step, FollowStep::Stream(Freshness::AtHand), "{code}: says nothing of streams");
        }
    }

    #[test]
    fn every_other_failure_keeps_the_version() {
        for outcome in [
            failed(401),
            failed(403),
            failed(404),
            failed(409),
            failed(429),
            failed(500),
            StepOutcome::Failed(ApiError::Unreachable(String::new())),
            StepOutcome::Broken,
            StepOutcome::Stalled,
        ] {
            assert_eq!(watching().decide(&outcome, SECOND).step, watch("1"), "{outcome:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_again_and_again_is_read_anew() {
        let mut course = watching();
        let garbage = StepOutcome::Failed(ApiError::Malformed(String::new()));
        assert_eq!(course.decide(&garbage, SECOND).step, watch("1"));
        assert_eq!(course.decide(&garbage, SECOND).step, watch("1"));
        assert_eq!(course.decide(&garbage, SECOND).step, FollowStep::List(not_older_than("1")));
        for _ in 0..2 {
            assert_eq!(course.decide(&garbage, SECOND).step, FollowStep::List(not_older_than("1")));
        }
        assert_eq!(course.decide(&garbage, SECOND).step, FollowStep::List(Freshness::Latest));
    }

    #[test]
    fn a_watch_that_tells_nothing_for_long_is_read_anew() {
        let mut course = watching();
        course.begin(SECOND);
        let silent = course.decide(&StepOutcome::Stalled, SECOND + GOOD_WATCH);
        assert_eq!(silent.step, FollowStep::List(not_older_than("1")));
        assert!(silent.after <= LONGEST_WAIT + FIRST_WAIT);
        let mut other = FollowCourse::new(2);
        other.decide(&listed("1"), Duration::ZERO);
        other.begin(SECOND);
        assert_ne!(other.decide(&StepOutcome::Stalled, SECOND + GOOD_WATCH).after, silent.after);
        let mut course = watching();
        course.begin(SECOND);
        course.reach("7".to_owned());
        assert_eq!(course.decide(&StepOutcome::Stalled, SECOND + GOOD_WATCH).step, watch("7"));
    }

    #[test]
    fn waits_double_up_to_a_bound_and_differ_from_agent_to_agent() {
        let waits = |seed| {
            let mut course = FollowCourse::new(seed);
            (0..12).map(|_| course.decide(&failed(500), SECOND).after).collect::<Vec<_>>()
        };
        let (one, other) = (waits(1), waits(2));
        for (at, wait) in one.iter().enumerate() {
            let whole = FIRST_WAIT.saturating_mul(1 << at).min(LONGEST_WAIT);
            assert!((whole / 2..=whole).contains(wait), "{at}: {wait:?}");
        }
        assert_eq!(one, waits(1));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other), "{one:?} {other:?}");
    }

    #[test]
    fn a_server_s_wish_is_heeded_but_not_by_all_at_the_same_moment() {
        let busy = |seed| {
            let mut headers = http::HeaderMap::new();
            headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("7"));
            let error = ApiError::of_answer(http::StatusCode::TOO_MANY_REQUESTS, &headers, b"");
            FollowCourse::new(seed).decide(&StepOutcome::Failed(error), SECOND).after
        };
        assert!(busy(1) > 7 * SECOND && busy(1) < 8 * SECOND);
        assert_ne!(busy(1), busy(2));
    }

    #[test]
    fn a_good_watch_forgives_earlier_failures_and_a_good_list_does_not() {
        let mut course = watching();
        for _ in 0..6 {
            course.decide(&failed(500), SECOND);
        }
        course.decide(&listed("2"), SECOND);
        assert!(course.decide(&failed(500), SECOND).after > 2 * SECOND);
        course.begin(SECOND);
        course.reach("3".to_owned());
        assert!(course.decide(&StepOutcome::Stalled, SECOND + GOOD_WATCH).after <= FIRST_WAIT);
    }

    #[test]
    fn dice_stay_within_bounds() {
        let mut dice = Dice::new(7);
        let throws: Vec<Duration> = (0..1000).map(|_| dice.between(SECOND, 3 * SECOND)).collect();
        assert!(throws.iter().all(|throw| (SECOND..=3 * SECOND).contains(throw)));
        let low = throws.iter().filter(|throw| **throw < 2 * SECOND).count();
        assert!((400..600).contains(&low), "{low}");
        assert_eq!(dice.between(SECOND, SECOND), SECOND);
    }
}
