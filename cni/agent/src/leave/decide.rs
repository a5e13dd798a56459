// SPDX-License-Identifier: Apache-2.0
//! Keep or uninstall, and why. Pure.

use std::fmt;

use protocol::mutant;

/// What became of the question for the DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is there and wants a pod on this node.
    Wanted,
    /// It is there and wants no pod here any more, and why.
    Unwanted(String),
    /// It is being deleted.
    Deleting,
    /// There is none (404).
    Gone,
    /// We may not ask (403).
    Forbidden,
    /// No answer that says anything: 401, 5xx, a time-out, no connection.
    Silent(String),
}

/// What was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observations {
    /// `AMBIENT_DISABLE_SAFE_UPGRADE`
    pub always_uninstall: bool,
    /// The agent knows which pod it is (`POD_NAME`).
    pub knows_itself: bool,
    /// The answers in the order in which they came: at the start, when the own pod was being deleted, at the end.
    pub answers: Vec<Answer>,
}

/// Why it is kept or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The operator wants it so.
    Always,
    /// The agent does not know which pod it is.
    Stranger,
    /// The DaemonSet is there: an upgrade, a restart, a drain.
    Wanted,
    /// The DaemonSet wants no pod here.
    Unwanted(String),
    /// The DaemonSet is being deleted.
    Deleting,
    /// The DaemonSet was there and is gone.
    Gone,
    /// There never was a DaemonSet of that name.
    NeverThere,
    /// The question was allowed once: the roles went first.
    RightsGone,
    /// The question was never allowed.
    NeverAllowed,
    /// Nobody answers.
    Silent(String),
}

/// What to do with what is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Leave it: the next agent takes it over.
    Keep(Reason),
    /// Remove it.
    Uninstall(Reason),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("AMBIENT_DISABLE_SAFE_UPGRADE asks for it"),
            Self::Stranger => f.write_str("POD_NAME is not set, so an upgrade cannot be told from an uninstall"),
            Self::Wanted => f.write_str("the DaemonSet is there: an upgrade, a restart or a drain"),
            Self::Unwanted(why) => write!(f, "the DaemonSet wants no pod on this node any more: {why}"),
            Self::Deleting => f.write_str("the DaemonSet is being deleted"),
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
            Self::Silent(why) => write!(f, "nobody says whether the DaemonSet is there: {why}"),
        }
    }
}

/// Decides. The last answer that says something counts: one from before the end is better than silence.
#[must_use]
pub fn decide(seen: &Observations) -> Decision {
    if seen.always_uninstall {
        return Decision::Uninstall(Reason::Always);
    }
    if !seen.knows_itself {
        return Decision::Uninstall(Reason::Stranger);
    }
    let telling = seen.answers.iter().rev().find(|answer| !matches!(answer, Answer::Silent(_)));
    // What was true at the start says nothing about the end; what was said since the own pod is being deleted does.
    let since_start = seen.answers.get(1..).unwrap_or_default();
    let silent = seen.answers.iter().rev().find_map(|answer| match answer {
        Answer::Silent(why) => Some(why.clone()),
        _ => None,
    });
    let answer = telling.filter(|answer| since_start.contains(answer));
    let Some(answer) = answer else {
        let reason = Reason::Silent(silent.unwrap_or_else(|| "it was not asked".to_owned()));
        return if mutant!("silence-uninstalls") {
            Decision::Uninstall(reason)
        } else {
            Decision::Keep(reason)
        };
    };
    judge(answer, &seen.answers)
}

fn judge(answer: &Answer, all: &[Answer]) -> Decision {
    let was_there =
        all.iter().any(|one| matches!(one, Answer::Wanted | Answer::Unwanted(_) | Answer::Deleting));
    match answer {
        Answer::Wanted if mutant!("wanted-uninstalls") => Decision::Uninstall(Reason::Gone),
        Answer::Gone if mutant!("gone-keeps") => Decision::Keep(Reason::Wanted),
        Answer::Deleting if mutant!("deleting-daemonset-kept") => Decision::Keep(Reason::Wanted),
        Answer::Unwanted(_) if mutant!("affinity-ignored") => Decision::Keep(Reason::Wanted),
        Answer::Forbidden if mutant!("forbidden-keeps") => Decision::Keep(Reason::RightsGone),
        Answer::Wanted => Decision::Keep(Reason::Wanted),
        Answer::Unwanted(why) => Decision::Uninstall(Reason::Unwanted(why.clone())),
        Answer::Deleting => Decision::Uninstall(Reason::Deleting),
        Answer::Gone if was_there => Decision::Uninstall(Reason::Gone),
        Answer::Gone => Decision::Uninstall(Reason::NeverThere),
        Answer::Forbidden if was_there || all.contains(&Answer::Gone) => {
            Decision::Uninstall(Reason::RightsGone)
        }
        Answer::Forbidden => Decision::Uninstall(Reason::NeverAllowed),
        Answer::Silent(why) => Decision::Keep(Reason::Silent(why.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> Answer {
        Answer::Silent("401".to_owned())
    }

    fn of(answers: &[Answer]) -> Decision {
        decide(&Observations { always_uninstall: false, knows_itself: true, answers: answers.to_vec() })
    }

    #[test]
    fn every_answer_at_the_end_has_its_decision() {
        use Answer::{Deleting, Forbidden, Gone, Unwanted, Wanted};
        let elsewhere = || Unwanted("its nodeSelector".to_owned());
        let silence = || Decision::Keep(Reason::Silent("401".to_owned()));
        for (answers, want) in [
            (vec![Wanted, Wanted], Decision::Keep(Reason::Wanted)),
            (vec![Wanted, Deleting], Decision::Uninstall(Reason::Deleting)),
            (vec![Wanted, Gone], Decision::Uninstall(Reason::Gone)),
            (vec![Wanted, elsewhere()], Decision::Uninstall(Reason::Unwanted("its nodeSelector".to_owned()))),
            (vec![Wanted, Forbidden], Decision::Uninstall(Reason::RightsGone)),
            (vec![Wanted, silent()], silence()),
            (vec![silent(), silent()], silence()),
            (vec![Gone, Gone], Decision::Uninstall(Reason::NeverThere)),
            (vec![Gone, Wanted], Decision::Keep(Reason::Wanted)),
            (vec![Gone, Forbidden], Decision::Uninstall(Reason::RightsGone)),
            (vec![Gone, silent()], silence()),
            (vec![Forbidden, Forbidden], Decision::Uninstall(Reason::NeverAllowed)),
            (vec![Forbidden, silent()], silence()),
            (vec![silent(), Forbidden], Decision::Uninstall(Reason::NeverAllowed)),
            (vec![silent(), Wanted], Decision::Keep(Reason::Wanted)),
            // With an answer from when the own pod was being deleted.
            (vec![Wanted, Gone, silent()], Decision::Uninstall(Reason::Gone)),
            (vec![Wanted, Deleting, silent()], Decision::Uninstall(Reason::Deleting)),
            (vec![Wanted, Wanted, silent()], Decision::Keep(Reason::Wanted)),
            (vec![Wanted, Wanted, Forbidden], Decision::Uninstall(Reason::RightsGone)),
            (vec![silent(), Wanted, Forbidden], Decision::Uninstall(Reason::RightsGone)),
            (vec![Wanted, Gone, Wanted], Decision::Keep(Reason::Wanted)),
            (vec![Wanted, silent(), Gone], Decision::Uninstall(Reason::Gone)),
        ] {
            assert_eq!(of(&answers), want, "{answers:?}");
        }
    }

    #[test]
    fn never_asked_is_kept() {
        let keep = Decision::Keep(Reason::Silent("it was not asked".to_owned()));
        assert_eq!((of(&[]), of(&[Answer::Gone])), (keep.clone(), keep));
    }

    #[test]
    fn who_does_not_know_itself_or_is_told_to_uninstalls() {
        let mut seen =
            Observations { always_uninstall: false, knows_itself: false, answers: vec![Answer::Wanted; 2] };
        assert_eq!(decide(&seen), Decision::Uninstall(Reason::Stranger));
        seen.always_uninstall = true;
        seen.knows_itself = true;
        assert_eq!(decide(&seen), Decision::Uninstall(Reason::Always));
    }
}
