// SPDX-License-Identifier: Apache-2.0
//! The front: what stands between a cluster's API server and everything on its nodes that asks it. It records requests, and lets go wrong
//! what a feature asks for.

use std::fmt;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{Issuer, LabError};

/// Verb, in the words of RBAC and of audit logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the words of RBAC")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        })
    }
}

/// Effect on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Answered with this code and a `Status` object.
    Answer {
        /// Code.
        code: u16,
        /// Seconds of the `Retry-After` header.
        retry_after: Option<u32>,
    },
    /// Answered with this code and no `Status` object: 429 as text, as of priority and fairness, and anything else as the page of a load balancer or a
    /// proxy.
    Page(u16),
    /// It is held until the fault is gone, at most for this long; then it goes on.
    Hold(Option<Duration>),
    /// The connection is closed without an answer.
    Drop,
    /// Answered 200 with a body that is not JSON.
    Garbage,
    /// It is carried out, but its answer breaks off in the middle of the body.
    Truncate,
    /// The response's body trickles.
    Drip {
        /// Bytes at a time.
        bytes: usize,
        /// Pause before each.
        every: Duration,
    },
    /// A list that a watch cache may answer is answered as of this resource version, as by one of several API servers whose cache is behind;
    /// anything else is answered by a server that is up to date.
    Past(u64),
    /// A watch, open or new, stays open and tells nothing, no bookmark either, as long as the fault is there.
    Silence,
    /// A watch, open or new, gets an ERROR event with this code and ends.
    ErrorEvent(u16),
    /// The connection of a watch, open or new, breaks once it has carried so many events.
    Cut {
        /// Events and bookmarks that still pass.
        after: u64,
    },
}

impl Effect {
    /// Response without `Retry-After`.
    #[must_use]
    pub fn answer(code: u16) -> Self {
        Self::Answer { code, retry_after: None }
    }

    /// True if it applies to the stream of a watch, at any time of its life, and not to a request.
    #[must_use]
    pub fn is_of_streams(self) -> bool {
        matches!(self, Self::Silence | Self::ErrorEvent(_) | Self::Cut { .. })
    }
}

/// A fault: matching requests, their number, and the effect.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Verb; a list is also a watch that begins with one.
    pub verb: Option<Verb>,
    /// Prefix of the path; empty for all.
    pub path: String,
    /// Only this resource, as in [`Asked::resource`].
    pub resource: Option<String>,
    /// Only this object; for a list or a watch, only if its field selector asks for this name.
    pub name: Option<String>,
    /// Only this user (`system:serviceaccount:NAMESPACE:NAME`, `system:anonymous`).
    pub user: Option<String>,
    /// Only with the token of a pod of this name: pods of one account are one user.
    pub pod: Option<String>,
    /// Number of requests to hit; then the fault is spent.
    pub times: Option<u32>,
    /// Time after which it is over.
    pub lasts: Option<Duration>,
    /// Effect.
    pub effect: Effect,
}

impl Fault {
    /// A fault for every request.
    #[must_use]
    pub fn always(effect: Effect) -> Self {
        Self {
            verb: None,
            path: String::new(),
            resource: None,
            name: None,
            user: None,
            pod: None,
            times: None,
            lasts: None,
            effect,
        }
    }

    /// A fault for every request of a verb whose path begins with `path`.
    #[must_use]
    pub fn on(verb: Verb, path: &str, effect: Effect) -> Self {
        Self { verb: Some(verb), path: path.to_owned(), ..Self::always(effect) }
    }

    /// A fault for every request of a verb about a resource.
    #[must_use]
    pub fn about(verb: Verb, resource: &str, effect: Effect) -> Self {
        Self { verb: Some(verb), resource: Some(resource.to_owned()), ..Self::always(effect) }
    }

    /// Limits the fault to the first `times` requests.
    #[must_use]
    pub fn first(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }
}

/// State of a watch that asks for all objects first, `sendInitialEvents` with bookmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialEvents {
    /// They are being told.
    Pending,
    /// All were told.
    Told,
    /// The server streams no lists: 422, or an `ERROR` event of code 500 after 200, for want of a feature of its etcd.
    Refused,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Sequence number of its arrival, from 0.
    pub order: u64,
    /// Arrival, since the front began.
    pub at: Duration,
    /// Verb.
    pub verb: Verb,
    /// Path.
    pub path: String,
    /// Query.
    pub query: Option<String>,
    /// The resource with its group and subresource: `pods`, `pods/status`, `daemonsets.apps`; `None` for other paths.
    pub resource: Option<String>,
    /// The namespace; a namespace is in itself, and `None` is the whole cluster.
    pub namespace: Option<String>,
    /// The object; for a list or a watch, the name that its field selector asks for.
    pub name: Option<String>,
    /// User that the token speaks of, valid or not; `system:anonymous` without one.
    pub user: String,
    /// Pod that the token is bound to.
    pub pod: Option<String>,
    /// The code that it was answered with; `None` while it has no answer, and for ever if its connection was dropped.
    pub code: Option<u16>,
    /// Message of a denial: by RBAC, or by admission.
    pub denied: Option<String>,
    /// Of a watch that asks for all objects first.
    pub initial: Option<InitialEvents>,
}

impl Asked {
    /// True if it was answered with success.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.code.is_some_and(|code| (200..300).contains(&code))
    }
}

/// A filter of requests.
pub type Filter<'a> = &'a (dyn Fn(&Asked) -> bool + Send + Sync);

/// The front of a cluster. A request meets every hold that matches, in the order in which they were added, until a fault that is not a hold
/// decides its fate.
#[async_trait]
pub trait Front: Send + Sync {
    /// Adds a fault.
    fn add(&self, fault: Fault);

    /// Removes all faults, those of connections as well; requests that they hold go on.
    fn clear(&self);

    /// Begins anew, without faults and requests, for another scenario of the same cluster. What pods ask that have asked before is no longer recorded.
    fn renew(&self);

    /// Resets all new connections.
    fn reset_connections(&self);

    /// Serves with another certificate, and has closed the connections of before, but for upgraded ones: nobody answers what they ask.
    async fn certify(&self, issuer: &dyn Issuer, valid_from: Option<SystemTime>) -> Result<(), LabError>;

    /// Requests so far, in order of arrival.
    fn requests(&self) -> Vec<Asked>;

    /// Number of matching requests so far.
    fn count(&self, filter: Filter<'_>) -> usize {
        self.requests().iter().filter(|one| filter(one)).count()
    }

    /// Waits until at least `count` requests match (arrived, or answered if the filter looks at the code). The deadline is the caller's.
    async fn until_requests(&self, count: usize, filter: Filter<'_>);
}

/// Denials of matching requests. A real API server goes by new roles and policies a moment after they were applied, and who is told so early asks again:
/// `forgives` leaves out what was not denied when the same was asked again.
#[must_use]
pub fn denials(requests: &[Asked], filter: Filter<'_>, forgives: bool) -> Vec<String> {
    let mut denials = Vec::new();
    for (at, one) in requests.iter().enumerate() {
        let Some(why) = one.denied.as_ref().filter(|_| filter(one)) else { continue };
        // One that is answered otherwise, also that there is no such object, was allowed.
        let allowed = |later: &Asked| later.denied.is_none() && later.code.is_some_and(|code| code < 500);
        let same = |later: &Asked| {
            (&later.user, later.verb, &later.path) == (&one.user, one.verb, &one.path) && allowed(later)
        };
        if !(forgives && requests.iter().skip(at + 1).any(same)) {
            denials.push(why.clone());
        }
    }
    denials
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, code: u16) -> Asked {
        Asked {
            order: 0,
            at: Duration::ZERO,
            verb: Verb::Get,
            path: path.to_owned(),
            query: None,
            resource: None,
            namespace: None,
            name: None,
            user: "agent".to_owned(),
            pod: None,
            code: Some(code),
            denied: (code == 403).then(|| format!("get {path}")),
            initial: None,
        }
    }

    #[test]
    fn a_denial_is_forgiven_if_the_same_is_not_denied_later() {
        let all = [asked("/a", 403), asked("/b", 403), asked("/a", 404), asked("/b", 503), asked("/c", 200)];
        assert_eq!(denials(&all, &|_| true, false), ["get /a", "get /b"]);
        assert_eq!(denials(&all, &|_| true, true), ["get /b"]);
        assert_eq!(denials(&all, &|one| one.path == "/a", false), ["get /a"]);
        let first_allowed = [asked("/a", 200), asked("/a", 403)];
        assert_eq!(denials(&first_allowed, &|_| true, true), ["get /a"]);
    }
}
