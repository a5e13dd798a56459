// SPDX-License-Identifier: Apache-2.0
//! Attributes of a request for faults and counts.

use http::request::Parts;

use crate::access::Identity;
use crate::reads::is_streamed_list;
use crate::route::{Query, REVIEWS, Route, Target, Verb};
use crate::selector::exact_name;

/// Attributes of a request for faults and counts.
#[derive(Debug, Clone)]
pub(crate) struct RequestInfo {
    pub(crate) verb: Verb,
    pub(crate) path: String,
    /// As in [`crate::Grant::new`].
    pub(crate) resource: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) user: String,
    /// As in [`crate::Logged::pod`].
    pub(crate) pod: Option<String>,
    /// A watch that begins with a list.
    pub(crate) is_streamed_list: bool,
}

impl RequestInfo {
    /// Of a request; without credentials the user is `system:anonymous`.
    pub(crate) fn of(parts: &Parts, route: &Route, query: &Query, who: Option<&Identity>) -> Self {
        let (resource, name) = match &route.target {
            Target::Resource { collection, name, subresource } => {
                let sub = subresource.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
                let selected = query.get("fieldSelector").and_then(exact_name);
                let name = name.clone().or_else(|| selected.map(str::to_owned));
                (Some(format!("{}{sub}", collection.kind.qualified())), name)
            }
            Target::Review => (Some(REVIEWS.to_owned()), None),
            Target::Path | Target::Nothing => (None, None),
        };
        let user = who.map_or_else(|| "system:anonymous".to_owned(), Identity::user);
        let pod = who.and_then(Identity::pod).map(str::to_owned);
        let is_streamed_list = is_streamed_list(route.verb, query);
        Self {
            verb: route.verb,
            path: parts.uri.path().to_owned(),
            resource,
            name,
            user,
            pod,
            is_streamed_list,
        }
    }
}
