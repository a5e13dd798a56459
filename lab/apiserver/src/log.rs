// SPDX-License-Identifier: Apache-2.0
//! Every request in the order of arrival, with what only the server knows of it: who answered a read, which grant was missing. What features
//! assert of requests is in the record of the front, which stands before any server. Bounded: what was dropped is counted.

use crate::rbac::Grant;
use crate::reads::Read;
use crate::route::Verb;

#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Sequence number of its arrival, from 0.
    pub order: u64,
    pub verb: Verb,
    pub path: String,
    /// The resource with its group and subresource, as in [`Grant::new`]; `None` for other paths.
    pub resource: Option<String>,
    /// The object; for a list or a watch, the name that its field selector asks for.
    pub name: Option<String>,
    pub query: Option<String>,
    /// User (`system:anonymous` without valid credentials).
    pub user: String,
    /// Backend of the read; `None` for other verbs, and for rejected requests.
    pub read: Option<Read>,
    /// The code that it was answered with; `None` while it has no answer.
    pub code: Option<u16>,
    /// The smallest grant that would have allowed it, if it was denied for want of one.
    pub missing: Option<Grant>,
}
