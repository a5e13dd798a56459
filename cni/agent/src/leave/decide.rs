// SPDX-License-Identifier: Apache-2.0
//! Keep, uninstall, or ask again, and why. Pure: told what was seen and when.
//!
//! Evidence, the strongest first: an answer about the DaemonSet itself; what its watch saw, which outlives lost rights; a refusal that
//! lasts (rights or account are gone). Silence is no evidence. One refusal is none either: an API server that fills its caches refuses, too.

use std::fmt;
use std::time::Duration;

use crate::api::Token;

/// Duration of denials until they count, while there is time: an API server that has just started denies until its caches of roles and
/// accounts are filled.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Lower bound of that duration.
const REFUSED_AT_LEAST: Duration = Duration::from_secs(2);

/// Time spent on a silent API server: longer would hold up every reboot whose network is down already.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(4);

/// Result of asking for the DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonSetAnswer {
    /// It is there, wants a pod on this node, and its namespace stays.
    Wanted,
    /// It is there and wants a pod on this node; whether its namespace stays may not be asked.
    Unconfirmed,
    /// It is there and wants no pod here any more, and why.
    Unwanted(String),
    /// It is being deleted.
    Deleting,
    /// Its namespace is being deleted. It goes as well, but only after the agent's pod.
    NamespaceDeleting,
    /// 404 about the DaemonSet.
    Gone,
    /// 403
    Forbidden,
    /// 401, and the token that was sent.
    Unauthorized(Token),
    /// No answer that says anything: 5xx, a 404 about something else, a time-out, no connection.
    Silent(String),
}

impl DaemonSetAnswer {
    /// 401 or 403: rights or account are gone, if it lasts.
    fn is_refusal(&self) -> bool {
        match self {
            Self::Forbidden => true,
            Self::Unauthorized(token) => *token == Token::Proven,
            _ => false,
        }
    }

    /// Inconclusive about the DaemonSet.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            Self::Silent(_) => true,
            Self::Unauthorized(token) => *token != Token::Proven,
            _ => false,
        }
    }

    /// The DaemonSet existed then.
    fn has_seen_it(&self) -> bool {
        matches!(self, Self::Wanted | Self::Unconfirmed | Self::Unwanted(_) | Self::Deleting)
    }
}

/// The DaemonSet as its watch showed it last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watched {
    /// Not listed yet.
    #[default]
    Unknown,
    There {
        /// The watch is open, so that a deletion would be seen.
        live: bool,
    },
    /// It is being deleted.
    Deleting,
    /// It was deleted, or there was none.
    Gone,
}

/// What else is known when the API server refuses a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TokenSigns {
    /// The watch of the DaemonSet was cut, or ended early, and has told nothing since.
    pub(super) cut: bool,
    /// The pod that the token is bound to is gone, or past its grace period.
    pub(super) pod_over: bool,
}

/// Classification of a refused token by the signs around it. A deleted account leaves an open watch open, until the time is over for which
/// it was requested. An API server that restarts, as it does for other signing keys, ends all watches, and refuses every token that it
/// did not sign: then a refusal says nothing of the account.
#[must_use]
pub(super) fn classify(token: Token, signs: TokenSigns) -> Token {
    match token {
        Token::Proven if signs.pod_over => Token::Unbound,
        Token::Proven if signs.cut => Token::Doubtful,
        other => other,
    }
}

/// Observations so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    /// `AMBIENT_DISABLE_SAFE_UPGRADE`
    pub always_uninstall: bool,
    /// The agent knows which pod it is (`POD_NAME`).
    pub knows_itself: bool,
    /// Answer at the start, if there was one.
    pub start: Option<DaemonSetAnswer>,
    /// Latest state of the watch.
    pub watched: Watched,
    /// The answers since the agent's pod is being deleted or the agent was told to stop, oldest first, and when they came.
    pub answers: Vec<(Duration, DaemonSetAnswer)>,
    /// Time since the first request.
    pub asked_for: Duration,
    /// The last request before the deadline.
    pub last: bool,
}

/// Reason of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    /// Requested by the operator.
    Always,
    /// The agent does not know which pod it is.
    Stranger,
    /// The DaemonSet is there: an upgrade, a restart, a drain.
    Wanted,
    /// The DaemonSet wants no pod here.
    Unwanted(String),
    /// The DaemonSet is being deleted.
    Deleting,
    /// The namespace is being deleted.
    NamespaceDeleting,
    /// The DaemonSet was there and is gone.
    Gone,
    /// There never was a DaemonSet of that name.
    NeverThere,
    /// Permitted before: the roles went first.
    RightsGone,
    /// Never permitted.
    NeverAllowed,
    /// The token was accepted, has not expired, and is refused: its account is gone.
    AccountGone,
    /// No answer.
    Silent(String),
}

/// Decision on the installed files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Keep them: the next agent takes them over.
    Keep(LeaveReason),
    Uninstall(LeaveReason),
}

impl fmt::Display for LeaveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("AMBIENT_DISABLE_SAFE_UPGRADE asks for it"),
            Self::Stranger => f.write_str("POD_NAME is not set, so an upgrade cannot be told from an uninstall"),
            Self::Wanted => f.write_str("the DaemonSet is there: an upgrade, a restart or a drain"),
            Self::Unwanted(why) => write!(f, "the DaemonSet wants no pod on this node any more: {why}"),
            Self::Deleting => f.write_str("the DaemonSet is being deleted"),
            Self::NamespaceDeleting => f.write_str("the DaemonSet's namespace is being deleted"),
            Self::Gone => f.write_str("the DaemonSet is gone"),
            Self::NeverThere => f.write_str(
                "there is no DaemonSet of that name (MILLRACE_DAEMONSET_NAME), so nothing starts an agent here again",
            ),
            Self::RightsGone => {
                f.write_str("the DaemonSet may not be read any more: its roles are being removed with it")
            }
            Self::NeverAllowed => f.write_str(
                "the DaemonSet may not be read (the role needs the verb get on daemonsets), so an upgrade cannot be told from an uninstall",
            ),
            Self::AccountGone => f.write_str(
                "the API server refuses a token that it accepted before and that has not expired, and did not cut its watches before: its service account is gone",
            ),
            Self::Silent(why) => write!(f, "nobody says whether the DaemonSet is there: {why}"),
        }
    }
}

/// Decides; `None` asks again, which is over when [`Observations::last`] is set.
#[must_use]
pub fn decide(seen: &Observations) -> Option<Decision> {
    if seen.always_uninstall {
        return Some(Decision::Uninstall(LeaveReason::Always));
    }
    if !seen.knows_itself {
        return Some(Decision::Uninstall(LeaveReason::Stranger));
    }
    let last = seen.answers.last().map(|(_, answer)| answer);
    if let Some(decision) = last.and_then(|answer| by_answer(answer, seen)) {
        return Some(decision);
    }
    match seen.watched {
        Watched::Deleting => return Some(Decision::Uninstall(LeaveReason::Deleting)),
        Watched::Gone => return Some(Decision::Uninstall(gone(seen))),
        Watched::Unknown | Watched::There { .. } => {}
    }
    // An answer since the pod's deletion outlives a server that denies or falls silent.
    let mut latest = seen.answers.iter().rev().map(|(_, answer)| answer);
    if let Some(decision) = latest.clone().find_map(|answer| by_answer(answer, seen)).filter(is_uninstall) {
        return Some(decision);
    }
    let last_answer = latest.find(|answer| !answer.is_silence());
    if last_answer.is_some_and(DaemonSetAnswer::is_refusal) && lasts(seen) {
        return Some(refused(last_answer, seen));
    }
    let waits = last.is_none_or(DaemonSetAnswer::is_refusal) || seen.asked_for < silent_for(last);
    (seen.last || !waits).then(|| by_silence(last_answer, seen))
}

/// Time spent on an API server whose last answer says nothing. One that accepts a token for something else may do so from its cache,
/// which remembers an account for ten seconds.
fn silent_for(last: Option<&DaemonSetAnswer>) -> Duration {
    match last {
        Some(DaemonSetAnswer::Unauthorized(Token::Accepted)) => REFUSED_FOR,
        _ => SILENT_FOR,
    }
}

/// True if denials have lasted long enough.
fn lasts(seen: &Observations) -> bool {
    let refused_for = refused_for(&seen.answers);
    let never_allowed = seen.start == Some(DaemonSetAnswer::Forbidden) && !was_allowed(seen);
    if seen.last || never_allowed {
        return refused_for >= REFUSED_AT_LEAST;
    }
    // A watch that is open tells of a deletion: as long as there is time, its word is waited for.
    refused_for >= REFUSED_FOR && seen.watched != Watched::There { live: true }
}

/// Decision of a conclusive answer.
fn by_answer(answer: &DaemonSetAnswer, seen: &Observations) -> Option<Decision> {
    Some(match answer {
        DaemonSetAnswer::Wanted => Decision::Keep(LeaveReason::Wanted),
        DaemonSetAnswer::Unwanted(why) => Decision::Uninstall(LeaveReason::Unwanted(why.clone())),
        DaemonSetAnswer::Deleting => Decision::Uninstall(LeaveReason::Deleting),
        DaemonSetAnswer::NamespaceDeleting => Decision::Uninstall(LeaveReason::NamespaceDeleting),
        DaemonSetAnswer::Gone => Decision::Uninstall(gone(seen)),
        DaemonSetAnswer::Unconfirmed
        | DaemonSetAnswer::Forbidden
        | DaemonSetAnswer::Unauthorized(_)
        | DaemonSetAnswer::Silent(_) => return None,
    })
}

fn gone(seen: &Observations) -> LeaveReason {
    let was_there =
        seen.answers.iter().map(|(_, answer)| answer).chain(&seen.start).any(DaemonSetAnswer::has_seen_it);
    if was_there || seen.watched == Watched::Deleting { LeaveReason::Gone } else { LeaveReason::NeverThere }
}

/// True if the DaemonSet could be read at any time.
fn was_allowed(seen: &Observations) -> bool {
    let mut answers = seen.answers.iter().map(|(_, answer)| answer).chain(&seen.start);
    answers.any(|one| one.has_seen_it() || *one == DaemonSetAnswer::Gone)
        || matches!(seen.watched, Watched::There { .. })
}

fn refused(last_answer: Option<&DaemonSetAnswer>, seen: &Observations) -> Decision {
    match last_answer {
        Some(DaemonSetAnswer::Unauthorized(_)) => Decision::Uninstall(LeaveReason::AccountGone),
        _ if was_allowed(seen) => Decision::Uninstall(LeaveReason::RightsGone),
        _ => Decision::Uninstall(LeaveReason::NeverAllowed),
    }
}

/// Duration of the trailing denials.
fn refused_for(answers: &[(Duration, DaemonSetAnswer)]) -> Duration {
    let answered = answers.iter().rev().filter(|(_, answer)| !answer.is_silence());
    let mut run = answered.take_while(|(_, answer)| answer.is_refusal()).map(|(at, _)| *at);
    let Some(newest) = run.next() else { return Duration::ZERO };
    newest.saturating_sub(run.last().unwrap_or(newest))
}

fn by_silence(last_answer: Option<&DaemonSetAnswer>, seen: &Observations) -> Decision {
    if matches!(last_answer, Some(DaemonSetAnswer::Wanted | DaemonSetAnswer::Unconfirmed)) {
        return Decision::Keep(LeaveReason::Wanted);
    }
    let why = match seen.answers.last() {
        Some((_, DaemonSetAnswer::Silent(why))) => why.clone(),
        Some((_, DaemonSetAnswer::Unauthorized(token))) => format!("401, and {token}"),
        Some(_) => "it was refused, but not for long enough".to_owned(),
        None => "it was not asked".to_owned(),
    };
    Decision::Keep(LeaveReason::Silent(why))
}

fn is_uninstall(decision: &Decision) -> bool {
    matches!(decision, Decision::Uninstall(_))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
