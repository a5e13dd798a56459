// SPDX-License-Identifier: Apache-2.0
//! The API server, asked for one pod: what an answer means, whether and when to ask again, and when to give up. Pure but
//! for the [`Connection`] and the [`Clock`] that it is handed.

use std::time::Duration;

use protocol::agent::PodKey;
use protocol::pod::PodFacts;

use crate::agent::ASK_LIMIT;
use crate::clock::{Clock, Deadline};
use crate::http::{Connection, HttpError, HttpResponse};

/// Deadlines and retries of questions about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the agent, which is asked once.
    pub agent: Duration,
    /// For the API server, waits included.
    pub total: Duration,
    /// For a single request: a server that hangs gets a second chance on a new connection.
    pub request: Duration,
}

impl Patience {
    /// An ADD's. The kubelet allows several times that for a sandbox, and tries again when we fail.
    pub const ADD: Self =
        Self { agent: ASK_LIMIT, total: Duration::from_secs(10), request: Duration::from_secs(5) };

    /// A CHECK's: it fails only if the pod is known, so it need not be. CRI-O starts with one CHECK for each pod, one after the other.
    pub const CHECK: Self = Self {
        agent: Duration::from_millis(100),
        total: Duration::from_millis(150),
        request: Duration::from_millis(150),
    };

    /// A diagnosis': somebody waits for it who wants to know.
    pub const DIAGNOSIS: Self =
        Self { agent: ASK_LIMIT, total: Duration::from_secs(1), request: Duration::from_secs(1) };
}

/// The first wait between two requests; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest wait that we choose ourselves.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Requests until another pod of the same name is believed to have taken its place. A read without a resourceVersion tells of what is now; but a static pod's
/// mirror is replaced only after its sandbox is there.
const REPLACED_ASKED: u32 = 4;

/// Failure to read a pod.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// 401 or 403.
    #[error(
        "failed to read the pod from the API server: it answered {status}; look at the token in the agent's kubeconfig, at the agent that \
         renews it and at the agent's right to get pods"
    )]
    Denied {
        /// 401 or 403.
        status: u16,
    },
    /// The server is another than the kubeconfig says, or the kubeconfig is unusable.
    #[error("failed to read the pod from the API server: {0}")]
    Unusable(HttpError),
    /// An answer that no further request would change.
    #[error("failed to read the pod from the API server: it answered {status}")]
    Refused {
        /// The status.
        status: u16,
    },
    /// The pod's name or namespace is none.
    #[error("failed to ask for the pod: {0:?} is not a name that Kubernetes allows")]
    Name(String),
    /// No usable answer by the deadline.
    #[error(
        "failed to read the pod from the API server: gave up after {attempts} requests in {spent:.1?}; last: {last}"
    )]
    GaveUp {
        attempts: u32,
        spent: Duration,
        /// Error of the last request.
        last: Retriable,
    },
}

/// Transient error.
#[derive(Debug, thiserror::Error)]
pub enum Retriable {
    /// 404: not created yet, or gone.
    #[error("there is no such pod")]
    NotFound,
    /// A pod of this name, but an older or newer one.
    #[error("the pod there has UID {found:?}, wanted is {wanted:?}")]
    OtherUid {
        /// The UID in the answer.
        found: String,
        /// The UID from the runtime.
        wanted: String,
    },
    /// 429 or 5xx.
    #[error("it answered {0}")]
    Status(u16),
    /// 200 with something that is not this pod.
    #[error("its answer is not this pod")]
    OtherPod,
    /// 200 with something that is no pod.
    #[error("its answer is not this pod: {0}")]
    Undecodable(String),
    /// No answer.
    #[error("{0}")]
    Http(HttpError),
}

/// Asks for the pod until it is found, the answer is final or `patience` is over.
///
/// # Errors
/// When the pod is not known at the end.
pub fn pod(
    connection: &mut dyn Connection,
    clock: &dyn Clock,
    key: &PodKey,
    patience: &Patience,
) -> Result<PodFacts, ApiError> {
    let path = path(key)?;
    let start = clock.now();
    let deadline = Deadline::after(clock, patience.total);
    let (mut attempts, mut before) = (0, None);
    loop {
        attempts += 1;
        let limit = deadline.left(clock).min(patience.request);
        let (mut last, server_wait) = match judge(connection.get(&path, limit), key)? {
            Judgement::Found(pod) => return Ok(*pod),
            Judgement::Again(why, server_wait) => (why, server_wait),
        };
        // A last attempt with a shorter deadline is less telling than the one before it.
        if let Retriable::Http(HttpError::Late(waited)) = last
            && waited < patience.request
        {
            last = before.take().unwrap_or(last);
        }
        let wait = backoff(attempts, clock.noise()).max(server_wait.unwrap_or_default());
        let is_replaced = matches!(last, Retriable::OtherUid { .. }) && attempts == REPLACED_ASKED;
        // A wait that leaves no time to ask would only hold up the runtime, which tries again later anyway.
        if is_replaced || wait >= deadline.left(clock) {
            return Err(ApiError::GaveUp { attempts, spent: clock.now().saturating_sub(start), last });
        }
        clock.wait(wait);
        before = Some(last);
    }
}

enum Judgement {
    Found(Box<PodFacts>),
    Again(Retriable, Option<Duration>),
}

fn judge(result: Result<HttpResponse, HttpError>, key: &PodKey) -> Result<Judgement, ApiError> {
    let answer = match result {
        Ok(answer) => answer,
        Err(final_one @ (HttpError::Certificate(_) | HttpError::Setup(_))) => {
            return Err(ApiError::Unusable(final_one));
        }
        Err(passing) => return Ok(Judgement::Again(Retriable::Http(passing), None)),
    };
    let again = |why| Ok(Judgement::Again(why, answer.retry_after));
    match answer.status {
        200 => match serde_json::from_slice::<PodFacts>(&answer.body) {
            Ok(pod) if !is_pod(&pod, key) => again(Retriable::OtherPod),
            // Without a UID of the runtime's, the pod of that name is taken.
            Ok(pod) if !key.uid.is_empty() && !pod.has_uid(&key.uid) => {
                again(Retriable::OtherUid { found: pod.metadata.uid, wanted: key.uid.clone() })
            }
            Ok(pod) => Ok(Judgement::Found(Box::new(pod))),
            Err(error) => again(Retriable::Undecodable(error.to_string())),
        },
        404 => again(Retriable::NotFound),
        status @ (429 | 500..=599) => again(Retriable::Status(status)),
        status @ (401 | 403) => Err(ApiError::Denied { status }),
        status => Err(ApiError::Refused { status }),
    }
}

/// True if `pod` is the requested one, and whole. Every field of [`PodFacts`] may be missing, so any JSON object decodes;
/// taken for a pod without a proxy, it would go unredirected.
#[must_use]
pub fn is_pod(pod: &PodFacts, key: &PodKey) -> bool {
    pod.metadata.name == key.name
        && pod.metadata.namespace == key.namespace
        && !pod.spec.containers.is_empty()
}

fn path(key: &PodKey) -> Result<String, ApiError> {
    for name in [&key.namespace, &key.name] {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(allowed) {
            return Err(ApiError::Name(name.clone()));
        }
    }
    Ok(format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name))
}

/// Between half and all of a wait that doubles: pods of one node that failed together do not come back together.
fn backoff(attempt: u32, noise: u64) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX));
    let half = doubled.min(LONGEST_WAIT) / 2;
    let share = u32::try_from(noise % 1024).unwrap_or(0);
    half + half * share / 1024
}

#[cfg(test)]
#[path = "api_tests.rs"]
mod tests;
