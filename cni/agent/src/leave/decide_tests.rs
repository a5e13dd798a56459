// SPDX-License-Identifier: Apache-2.0

use DaemonSetAnswer::{Deleting, Forbidden, Gone, NamespaceDeleting, Unconfirmed, Unwanted, Wanted};

use super::*;

const ACCOUNT: DaemonSetAnswer = DaemonSetAnswer::Unauthorized(Token::Proven);
const EXPIRED: DaemonSetAnswer = DaemonSetAnswer::Unauthorized(Token::Expired);
const UNPROVEN: DaemonSetAnswer = DaemonSetAnswer::Unauthorized(Token::Unproven);
const LIVE: Watched = Watched::There { live: true };
const LOST: Watched = Watched::There { live: false };

fn silent() -> DaemonSetAnswer {
    DaemonSetAnswer::Silent("no route".to_owned())
}

fn elsewhere() -> DaemonSetAnswer {
    Unwanted("its nodeSelector".to_owned())
}

fn keep(reason: LeaveReason) -> Option<Decision> {
    Some(Decision::Keep(reason))
}

fn uninstall(reason: LeaveReason) -> Option<Decision> {
    Some(Decision::Uninstall(reason))
}

/// Observations after `start`, with an answer each second from the first request on.
fn seen(watched: Watched, answers: &[DaemonSetAnswer]) -> Observations {
    let answers: Vec<_> = (0..).map(Duration::from_secs).zip(answers.iter().cloned()).collect();
    let asked_for = answers.last().map(|(at, _)| *at).unwrap_or_default();
    Observations {
        knows_itself: true,
        start: Some(Wanted),
        watched,
        answers,
        asked_for,
        ..Observations::default()
    }
}

fn now(watched: Watched, answers: &[DaemonSetAnswer]) -> Option<Decision> {
    decide(&seen(watched, answers))
}

fn at_last(watched: Watched, answers: &[DaemonSetAnswer]) -> Option<Decision> {
    decide(&Observations { last: true, ..seen(watched, answers) })
}

fn times(count: usize, answer: &DaemonSetAnswer) -> Vec<DaemonSetAnswer> {
    vec![answer.clone(); count]
}

#[test]
fn an_answer_about_the_daemonset_decides_at_once_whatever_the_watch_saw() {
    for watched in [Watched::Unknown, LIVE, LOST, Watched::Deleting, Watched::Gone] {
        for before in [vec![], vec![silent()], vec![Forbidden], vec![Gone], vec![ACCOUNT; 12]] {
            let after = |answer: &DaemonSetAnswer| {
                now(watched, &[before.as_slice(), std::slice::from_ref(answer)].concat())
            };
            assert_eq!(after(&Wanted), keep(LeaveReason::Wanted), "{watched:?} {before:?}");
            assert_eq!(after(&Deleting), uninstall(LeaveReason::Deleting));
            assert_eq!(after(&Gone), uninstall(LeaveReason::Gone));
            assert_eq!(after(&NamespaceDeleting), uninstall(LeaveReason::NamespaceDeleting));
            assert_eq!(after(&elsewhere()), uninstall(LeaveReason::Unwanted("its nodeSelector".to_owned())));
        }
    }
}

#[test]
fn what_the_watch_saw_deleted_is_deleted_though_nobody_answers() {
    for answer in [silent(), Forbidden, ACCOUNT, EXPIRED, UNPROVEN, Unconfirmed] {
        assert_eq!(
            now(Watched::Deleting, &times(1, &answer)),
            uninstall(LeaveReason::Deleting),
            "{answer:?}"
        );
        assert_eq!(now(Watched::Gone, &times(1, &answer)), uninstall(LeaveReason::Gone), "{answer:?}");
        assert_eq!(now(LIVE, &times(1, &answer)), None, "{answer:?}");
    }
}

#[test]
fn a_refusal_counts_when_it_lasts() {
    for (answer, reason) in [(Forbidden, LeaveReason::RightsGone), (ACCOUNT, LeaveReason::AccountGone)] {
        for (watched, count, last, want) in [
            (Watched::Unknown, 1, false, None),
            (Watched::Unknown, 10, false, None),
            (Watched::Unknown, 11, false, uninstall(reason.clone())),
            (LOST, 11, false, uninstall(reason.clone())),
            // An open watch will tell.
            (LIVE, 11, false, None),
            (LIVE, 20, true, uninstall(reason.clone())),
            // There is no more time.
            (LIVE, 3, true, uninstall(reason.clone())),
        ] {
            let seen = Observations { last, ..seen(watched, &times(count, &answer)) };
            assert_eq!(decide(&seen), want, "{watched:?} {count} {last} {answer:?}");
        }
    }
}

#[test]
fn a_refusal_that_does_not_last_is_no_evidence() {
    for answer in [Forbidden, ACCOUNT] {
        for watched in [Watched::Unknown, LIVE, LOST] {
            let decision = at_last(watched, &times(2, &answer));
            assert!(matches!(decision, Some(Decision::Keep(LeaveReason::Silent(_)))), "{decision:?}");
            let mut passed = times(12, &answer);
            passed.push(Wanted);
            assert_eq!(now(watched, &passed), keep(LeaveReason::Wanted));
        }
    }
}

#[test]
fn rights_and_account_may_go_one_after_the_other() {
    let gone = [times(6, &Forbidden), times(6, &ACCOUNT)].concat();
    assert_eq!(now(LOST, &gone), uninstall(LeaveReason::AccountGone));
    // Silence in between is no answer, and one that says something is.
    let gone = [times(6, &Forbidden), times(1, &silent()), times(6, &ACCOUNT)].concat();
    assert_eq!(now(LOST, &gone), uninstall(LeaveReason::AccountGone));
    let back = [times(6, &Forbidden), times(1, &Unconfirmed), times(6, &ACCOUNT)].concat();
    assert_eq!(now(LOST, &back), None);
}

#[test]
fn a_token_that_expired_or_never_worked_says_nothing() {
    for answer in [EXPIRED, UNPROVEN] {
        for watched in [Watched::Unknown, LIVE, LOST] {
            assert_eq!(now(watched, &times(1, &answer)), None);
            let decision = now(watched, &times(20, &answer));
            assert!(matches!(decision, Some(Decision::Keep(LeaveReason::Silent(_)))), "{decision:?}");
        }
    }
}

#[test]
fn the_signs_around_a_refused_token_say_what_it_means() {
    for (token, cut, pod_over, want) in [
        // Nothing else broke: the account.
        (Token::Proven, false, false, Token::Proven),
        // The API server restarted, perhaps with other keys.
        (Token::Proven, true, false, Token::Doubtful),
        (Token::Proven, false, true, Token::Unbound),
        (Token::Proven, true, true, Token::Unbound),
        // What says nothing of the account stays so.
        (Token::Expired, true, true, Token::Expired),
        (Token::Unproven, true, false, Token::Unproven),
        (Token::Accepted, true, false, Token::Accepted),
    ] {
        let signs = TokenSigns { cut, pod_over };
        assert_eq!(classify(token, signs), want, "{token:?} {signs:?}");
    }
}

#[test]
fn a_token_that_is_accepted_for_something_else_is_asked_with_as_long_as_a_cache_may_lie() {
    let accepted = DaemonSetAnswer::Unauthorized(Token::Accepted);
    for watched in [Watched::Unknown, LIVE, LOST] {
        assert_eq!(now(watched, &times(10, &accepted)), None);
        let kept = now(watched, &times(11, &accepted));
        assert!(matches!(kept, Some(Decision::Keep(LeaveReason::Silent(_)))), "{kept:?}");
        // The cache forgets, and the token is refused whatever it is used for.
        let refused = [times(8, &accepted), times(11, &ACCOUNT)].concat();
        assert_eq!(at_last(watched, &refused), uninstall(LeaveReason::AccountGone));
    }
}

#[test]
fn silence_is_waited_for_a_few_seconds_and_keeps() {
    let silence = || keep(LeaveReason::Silent("no route".to_owned()));
    for (answers, want) in [
        (times(4, &silent()), None),
        (times(5, &silent()), silence()),
        ([times(1, &Wanted), times(5, &silent())].concat(), keep(LeaveReason::Wanted)),
        ([times(1, &Unconfirmed), times(5, &silent())].concat(), keep(LeaveReason::Wanted)),
        ([times(1, &Forbidden), times(5, &silent())].concat(), silence()),
        // Since the agent's pod is being deleted.
        ([times(1, &Gone), times(1, &silent())].concat(), uninstall(LeaveReason::Gone)),
        ([times(1, &Deleting), times(1, &silent())].concat(), uninstall(LeaveReason::Deleting)),
        (
            [times(1, &NamespaceDeleting), times(1, &ACCOUNT)].concat(),
            uninstall(LeaveReason::NamespaceDeleting),
        ),
        (
            [times(1, &elsewhere()), times(1, &silent())].concat(),
            uninstall(LeaveReason::Unwanted("its nodeSelector".to_owned())),
        ),
    ] {
        assert_eq!(now(LIVE, &answers), want, "{answers:?}");
    }
    assert_eq!(at_last(LIVE, &times(1, &silent())), silence());
}

#[test]
fn a_daemonset_whose_namespace_may_not_be_asked_for_is_kept_after_a_while() {
    for watched in [Watched::Unknown, LIVE, LOST] {
        assert_eq!(now(watched, &times(4, &Unconfirmed)), None);
        assert_eq!(now(watched, &times(5, &Unconfirmed)), keep(LeaveReason::Wanted));
        assert_eq!(at_last(watched, &times(1, &Unconfirmed)), keep(LeaveReason::Wanted));
    }
}

#[test]
fn the_reason_tells_what_was_never_there_from_what_went() {
    let started = |start: Option<DaemonSetAnswer>, watched, answers: &[DaemonSetAnswer]| {
        decide(&Observations { start, last: true, ..seen(watched, answers) })
    };
    for (start, answers, want) in [
        (Some(Wanted), times(1, &Gone), LeaveReason::Gone),
        (Some(Gone), times(1, &Gone), LeaveReason::NeverThere),
        (None, times(1, &Gone), LeaveReason::NeverThere),
        (Some(Wanted), times(3, &Forbidden), LeaveReason::RightsGone),
        (Some(Gone), times(3, &Forbidden), LeaveReason::RightsGone),
        (Some(Forbidden), times(3, &Forbidden), LeaveReason::NeverAllowed),
        (None, times(3, &Forbidden), LeaveReason::NeverAllowed),
    ] {
        assert_eq!(
            started(start.clone(), Watched::Unknown, &answers),
            uninstall(want),
            "{start:?} {answers:?}"
        );
    }
    assert_eq!(started(None, LOST, &times(3, &Forbidden)), uninstall(LeaveReason::RightsGone));
}

#[test]
fn who_was_never_allowed_does_not_wait_long() {
    let never = Observations { start: Some(Forbidden), ..seen(Watched::Unknown, &times(3, &Forbidden)) };
    assert_eq!(decide(&never), uninstall(LeaveReason::NeverAllowed));
    let denied = times(9, &Forbidden);
    let allowed_since = [[Unconfirmed].as_slice(), &denied].concat();
    for (watched, answers) in [(LOST, &denied), (Watched::Unknown, &allowed_since)] {
        let seen = Observations { start: Some(Forbidden), ..seen(watched, answers) };
        assert_eq!(decide(&seen), None, "{watched:?} {answers:?}: its start alone was denied");
    }
}

#[test]
fn never_asked_is_kept() {
    assert_eq!(now(Watched::Unknown, &[]), None);
    assert_eq!(at_last(Watched::Unknown, &[]), keep(LeaveReason::Silent("it was not asked".to_owned())));
}

#[test]
fn who_does_not_know_itself_or_is_told_to_uninstalls() {
    let mut seen = Observations { knows_itself: false, ..seen(LIVE, &times(2, &Wanted)) };
    assert_eq!(decide(&seen), uninstall(LeaveReason::Stranger));
    (seen.always_uninstall, seen.knows_itself) = (true, true);
    assert_eq!(decide(&seen), uninstall(LeaveReason::Always));
}
