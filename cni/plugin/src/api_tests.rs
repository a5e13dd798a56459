// SPDX-License-Identifier: Apache-2.0
//! Outcome, number of attempts and total time for each kind of response, on a clock that only waits advance.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;

use super::*;
use crate::testing::FakeClock;

/// Plays one answer after the other, the last for ever; each takes its time, up to the limit that it is given.
struct Script<'c> {
    clock: &'c FakeClock,
    steps: RefCell<VecDeque<(Duration, Step)>>,
    asked: Vec<(String, Duration)>,
}

#[derive(Clone)]
enum Step {
    Answer(HttpResponse),
    Dropped,
    NotHttp,
    WrongCertificate,
    Silence,
}

impl Connection for Script<'_> {
    fn get(&mut self, path: &str, limit: Duration) -> Result<HttpResponse, HttpError> {
        self.asked.push((path.to_owned(), limit));
        let mut steps = self.steps.borrow_mut();
        let (takes, step) = if steps.len() > 1 { steps.pop_front().unwrap() } else { steps[0].clone() };
        if takes >= limit || matches!(step, Step::Silence) {
            self.clock.advance(limit);
            return Err(HttpError::Late(limit));
        }
        self.clock.advance(takes);
        match step {
            Step::Answer(answer) => Ok(answer),
            Step::Dropped => Err(HttpError::Connection(io::ErrorKind::ConnectionReset.into())),
            Step::NotHttp => Err(HttpError::Protocol(ureq::Error::TooManyRedirects)),
            Step::WrongCertificate => Err(HttpError::Certificate(rustls::Error::InvalidCertificate(
                rustls::CertificateError::Expired,
            ))),
            Step::Silence => unreachable!("handled above"),
        }
    }
}

fn key() -> PodKey {
    PodKey { namespace: "shop".into(), name: "cart".into(), uid: "u1".into(), ..PodKey::default() }
}

fn status(status: u16) -> Step {
    Step::Answer(HttpResponse { status, ..HttpResponse::default() })
}

fn later(status: u16, seconds: u64) -> Step {
    Step::Answer(HttpResponse { status, retry_after: Some(Duration::from_secs(seconds)), body: Vec::new() })
}

fn body(text: &str) -> Step {
    Step::Answer(HttpResponse { status: 200, retry_after: None, body: text.as_bytes().to_vec() })
}

fn pod_with(uid: &str) -> Step {
    body(&format!(
        r#"{{"kind":"Pod","metadata":{{"name":"cart","namespace":"shop","uid":"{uid}"}},"spec":{{"containers":[{{"name":"app"}}]}}}}"#
    ))
}

struct Outcome {
    result: Result<PodFacts, ApiError>,
    requests: usize,
    passed: Duration,
    waits: Vec<Duration>,
    limits: Vec<Duration>,
}

fn play_with(noise: u64, steps: &[Step]) -> Outcome {
    let mut clock = FakeClock::new();
    clock.noise = noise;
    let before = clock.now();
    let steps = steps.iter().map(|step| (Duration::from_millis(5), step.clone())).collect();
    let mut script = Script { clock: &clock, steps: RefCell::new(steps), asked: Vec::new() };
    let result = pod(&mut script, &clock, &key(), &Patience::ADD);
    let limits = script.asked.iter().map(|(_, limit)| *limit).collect();
    Outcome {
        result,
        requests: script.asked.len(),
        passed: clock.now() - before,
        waits: clock.waits.take(),
        limits,
    }
}

fn play(steps: &[Step]) -> Outcome {
    play_with(0, steps)
}

#[test]
fn a_pod_is_found_with_one_request() {
    let outcome = play(&[pod_with("u1")]);
    assert_eq!(outcome.result.unwrap().metadata.uid, "u1");
    assert_eq!((outcome.requests, outcome.passed), (1, Duration::from_millis(5)));
}

#[test]
fn a_refused_token_fails_at_once_and_says_where_to_look() {
    for code in [401, 403] {
        let outcome = play(&[status(code), pod_with("u1")]);
        let error = outcome.result.unwrap_err();
        assert!(matches!(error, ApiError::Denied { status } if status == code), "{error}");
        assert!(error.to_string().contains("token"), "{error}");
        assert_eq!((outcome.requests, outcome.waits.len()), (1, 0));
    }
}

#[test]
fn answers_that_asking_again_does_not_change_fail_at_once() {
    for code in [301, 400, 405, 418] {
        let outcome = play(&[status(code), pod_with("u1")]);
        assert!(matches!(outcome.result, Err(ApiError::Refused { status }) if status == code));
        assert_eq!(outcome.requests, 1);
    }
    let outcome = play(&[Step::WrongCertificate, pod_with("u1")]);
    assert!(matches!(outcome.result, Err(ApiError::Unusable(HttpError::Certificate(_)))));
    assert_eq!(outcome.requests, 1);
}

#[test]
fn what_may_pass_is_asked_again_until_it_has_passed() {
    let passing = [
        ("404", status(404)),
        ("429", status(429)),
        ("500", status(500)),
        ("503", status(503)),
        ("dropped", Step::Dropped),
        ("not http", Step::NotHttp),
        ("not json", body("<html>")),
        ("half", body("{\"metadata\":{\"name\":\"ca")),
        ("empty", body("")),
        ("no pod", body("{}")),
        ("null", body("null")),
        ("a list", body(r#"{"kind":"PodList","items":[]}"#)),
        ("no containers", body(r#"{"metadata":{"name":"cart","namespace":"shop","uid":"u1"}}"#)),
        ("stale", pod_with("u0")),
    ];
    for (what, step) in passing {
        let outcome = play(&[step.clone(), step, pod_with("u1")]);
        assert!(outcome.result.is_ok(), "{what}: {:?}", outcome.result);
        assert_eq!(outcome.requests, 3, "{what}");
        assert!(outcome.passed < Duration::from_secs(1), "{what}: {:?}", outcome.passed);
    }
}

/// Nobody waits for the pod that was there before.
#[test]
fn another_pod_in_its_place_is_believed_after_some_requests() {
    let outcome = play_with(u64::MAX, &[pod_with("u0")]);
    let error = outcome.result.unwrap_err();
    assert!(matches!(error, ApiError::GaveUp { last: Retriable::OtherUid { .. }, .. }), "{error}");
    assert_eq!(u32::try_from(outcome.requests).unwrap(), REPLACED_ASKED);
    assert!(outcome.passed < Duration::from_secs(1), "{:?}", outcome.passed);
}

#[test]
fn what_does_not_pass_is_given_up_within_the_limit() {
    for (step, said) in [
        (status(404), "no such pod"),
        (status(500), "answered 500"),
        (Step::Dropped, "talk to it"),
        (body("<html>"), "not this pod"),
    ] {
        let outcome = play_with(u64::MAX, &[step]);
        let error = outcome.result.unwrap_err();
        assert!(matches!(error, ApiError::GaveUp { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert!(outcome.passed <= Patience::ADD.total, "{said}: {:?}", outcome.passed);
        assert!(outcome.passed > Patience::ADD.total - LONGEST_WAIT, "{said}: {:?}", outcome.passed);
        assert!((6..=20).contains(&outcome.requests), "{said}: {}", outcome.requests);
    }
}

#[test]
fn a_server_that_hangs_gets_two_requests_and_no_more_time_than_there_is() {
    let outcome = play(&[Step::Silence]);
    assert!(matches!(outcome.result, Err(ApiError::GaveUp { attempts: 2, .. })), "{:?}", outcome.result);
    assert_eq!(outcome.limits[0], Patience::ADD.request);
    assert_eq!(outcome.passed, Patience::ADD.total);
    let outcome = play(&[Step::Silence, pod_with("u1")]);
    assert!(outcome.result.is_ok());
    assert!(outcome.passed < Duration::from_secs(6));
}

#[test]
fn a_last_request_that_had_no_time_does_not_hide_what_the_server_said() {
    let mut steps = vec![status(503); 9];
    steps.push(Step::Silence);
    let outcome = play(&steps);
    assert!(outcome.limits.last().unwrap() < &Patience::ADD.request, "{:?}", outcome.limits);
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.ends_with("last: it answered 503"), "{error}");
}

#[test]
fn the_server_may_ask_for_a_longer_wait() {
    let outcome = play(&[later(429, 3), later(503, 1), pod_with("u1")]);
    assert!(outcome.result.is_ok());
    assert_eq!(outcome.waits, [Duration::from_secs(3), Duration::from_secs(1)]);
}

#[test]
fn a_wait_beyond_the_limit_is_left_to_the_runtime() {
    let outcome = play(&[later(429, 60), pod_with("u1")]);
    assert!(matches!(outcome.result, Err(ApiError::GaveUp { attempts: 1, .. })), "{:?}", outcome.result);
    assert_eq!(outcome.passed, Duration::from_millis(5));
}

#[test]
fn waits_double_up_to_a_bound_and_are_spread() {
    let short: Vec<_> = play_with(0, &[status(404)]).waits;
    let long: Vec<_> = play_with(1023, &[status(404)]).waits;
    let millis = |waits: &[Duration]| waits.iter().map(Duration::as_millis).collect::<Vec<_>>();
    assert_eq!(millis(&short)[..6], [50, 100, 200, 400, 800, 1000]);
    assert_eq!(millis(&long)[..6], [99, 199, 399, 799, 1599, 1999]);
}

#[test]
fn the_pod_is_asked_for_by_its_path() {
    let clock = FakeClock::new();
    let steps = RefCell::new(VecDeque::from([(Duration::ZERO, pod_with("u1"))]));
    let mut script = Script { clock: &clock, steps, asked: Vec::new() };
    pod(&mut script, &clock, &key(), &Patience::ADD).unwrap();
    assert_eq!(script.asked[0].0, "/api/v1/namespaces/shop/pods/cart");
}

#[test]
fn names_that_are_none_never_reach_the_server() {
    for name in ["", "../secrets/x", "a/b", "a?b", "a b", "a%2fb", ".", "..", "ü"] {
        let clock = FakeClock::new();
        let steps = RefCell::new(VecDeque::from([(Duration::ZERO, pod_with("u1"))]));
        let mut script = Script { clock: &clock, steps, asked: Vec::new() };
        let key = PodKey { name: name.into(), ..key() };
        let result = pod(&mut script, &clock, &key, &Patience::ADD);
        assert!(matches!(result, Err(ApiError::Name(_))), "{name}: {result:?}");
        assert!(script.asked.is_empty(), "{name}");
    }
}

#[test]
fn an_unknown_uid_takes_the_pod_that_is_there() {
    let clock = FakeClock::new();
    let steps = RefCell::new(VecDeque::from([(Duration::ZERO, pod_with("u7"))]));
    let mut script = Script { clock: &clock, steps, asked: Vec::new() };
    let key = PodKey { uid: String::new(), ..key() };
    assert_eq!(pod(&mut script, &clock, &key, &Patience::ADD).unwrap().metadata.uid, "u7");
}
