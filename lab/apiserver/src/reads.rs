// SPDX-License-Identifier: Apache-2.0
//! Backend of a read, and rejected lists and watches, as in the real API server. Pure.
//!
//! | read | answered by | how we know |
//! |---|---|---|
//! | get without a version | etcd | `CacheDelegator.Get` |
//! | get with one | watch cache | the same |
//! | list, `resourceVersion=0` (with or without `limit`) | watch cache, which does not page | `shouldDelegateList`; `cacher.GetList` |
//! | list, `resourceVersion=X`, no `limit` or `NotOlderThan` | watch cache, once it is at X | `shouldDelegateList` |
//! | list, `resourceVersion=X`, `limit`, no `resourceVersionMatch` | exactly X: etcd; with `ListFromCacheSnapshot` the watch cache | "legacy exact match" there |
//! | list, `Exact` | the same | the same |
//! | list, `continue` | the same | the same |
//! | list without a version | etcd; with `ConsistentListFromCache` the watch cache, once it is at the version that etcd says is the newest | the same, `GetCurrentResourceVersionFromStorage` |
//! | watch with a version, or none | watch cache | `CacheDelegator.Watch`; `WatchFromStorageWithoutResourceVersion` is off |
//! | watch with `sendInitialEvents`, without a version | watch cache, once it is at etcd's newest version | `getWatchCacheResourceVersion` |
//! | the same, whatever the version, of an etcd without `RequestWatchProgress` | nobody: 200, and an `ERROR` event of code 500 | `cacher.Watch`; seen of 1.34.4 with etcd 3.4.23 |
//!
//! Read in `staging/src/k8s.io/apiserver/pkg/storage/cacher/{delegator,cacher}.go` of Kubernetes 1.32 to 1.34; validation, in
//! `apimachinery/pkg/apis/meta/internalversion/validation`. The embedded server has a single store behind both: only what is counted, and
//! which version an answer may be of, differ. Its watch cache is always ready and never behind; the real one makes a request for a version
//! that it has not seen yet wait for 3 s before it refuses it.

use crate::causes::Causes;
use crate::error::ApiError;
use crate::route::{Query, Verb, number};

/// The real server's feature gates for reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// `WatchList`: streaming lists. On in 1.32, off in 1.33, on from 1.34.
    pub watch_list: bool,
    /// `ConsistentListFromCache`: on from 1.31.
    pub consistent_list_from_cache: bool,
    /// `ListFromCacheSnapshot`: on from 1.34.
    pub list_from_cache_snapshot: bool,
    /// No gate, but of the same effect: the `RequestWatchProgress` of all members of etcd, 3.4.31, 3.5.13 and later.
    pub request_watch_progress: bool,
}

impl Default for Gates {
    /// Those of the imitated version, 1.34.
    fn default() -> Self {
        Self {
            watch_list: true,
            consistent_list_from_cache: true,
            list_from_cache_snapshot: true,
            request_watch_progress: true,
        }
    }
}

impl Gates {
    /// Those of 1.30, the oldest supported version: all off.
    pub const OLDEST: Self = Self {
        watch_list: false,
        consistent_list_from_cache: false,
        list_from_cache_snapshot: false,
        request_watch_progress: true,
    };

    /// True if lists cannot be streamed: etcd must report the progress of its watches.
    pub(crate) fn refuses_streamed_list(self, verb: Verb, query: &Query) -> bool {
        !self.request_watch_progress && is_streamed_list(verb, query)
    }
}

/// Backend of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// The server's watch cache.
    Cache,
    /// The watch cache, after etcd said which version is the newest: a small request.
    Version,
    /// etcd: all objects of the kind are read there, whatever the selectors.
    Storage,
}

const MATCH: &str = "resourceVersionMatch";
const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

/// True if a watch begins with all objects and marks their end.
pub(crate) fn is_streamed_list(verb: Verb, query: &Query) -> bool {
    verb == Verb::Watch && query.is_true("sendInitialEvents") && query.is_true("allowWatchBookmarks")
}

/// True if a list is of exactly the version that it names.
pub(crate) fn is_exact(query: &Query) -> Result<bool, ApiError> {
    Ok(match query.get(MATCH) {
        Some(asked) => asked == EXACT,
        None => {
            number(query, "limit")?.unwrap_or(0) > 0 && number(query, "resourceVersion")?.unwrap_or(0) > 0
        }
    })
}

/// Backend; `None` if it is no read, or no backend can answer.
pub(crate) fn read(verb: Verb, query: &Query, gates: Gates) -> Result<Option<Read>, ApiError> {
    let version = query.get("resourceVersion");
    let of_snapshots = if gates.list_from_cache_snapshot { Read::Cache } else { Read::Storage };
    let knows_now = gates.consistent_list_from_cache && gates.request_watch_progress;
    let of_now = if knows_now { Read::Version } else { Read::Storage };
    Ok(Some(match verb {
        Verb::Watch if gates.refuses_streamed_list(verb, query) => return Ok(None),
        Verb::Get if version.is_none() => Read::Storage,
        Verb::Get => Read::Cache,
        Verb::List if is_exact(query)? || query.get("continue").is_some() => of_snapshots,
        Verb::List if version.is_none() => of_now,
        Verb::List => Read::Cache,
        Verb::Watch if version.is_none() && query.is_true("sendInitialEvents") => Read::Version,
        Verb::Watch => Read::Cache,
        _ => return Ok(None),
    }))
}

/// Refuses what the real server refuses of a list's or a watch's parameters.
pub(crate) fn validate(verb: Verb, query: &Query, gates: Gates) -> Result<(), ApiError> {
    let mut wrong: Vec<String> = Vec::new();
    let (asked, initial) = (query.get(MATCH), query.get("sendInitialEvents").is_some());
    let mut refuse = |field: &str, why: &str| wrong.push(format!("{field}: Forbidden: {why}"));
    match verb {
        Verb::List => {
            if asked.is_some() && query.get("resourceVersion").is_none() {
                refuse(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if asked.is_some() && query.get("continue").is_some() {
                refuse(MATCH, "resourceVersionMatch is forbidden when continue is provided");
            }
            if asked == Some(EXACT) && query.get("resourceVersion") == Some("0") {
                refuse(MATCH, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if initial {
                refuse("sendInitialEvents", "sendInitialEvents is forbidden for list");
            }
        }
        Verb::Watch => {
            if initial && asked != Some(NOT_OLDER_THAN) {
                refuse(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            if initial && !gates.watch_list {
                let why =
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                refuse("sendInitialEvents", why);
            }
            if !initial && asked.is_some() {
                refuse(
                    MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
        }
        _ => {}
    }
    if let Some(other) = asked.filter(|asked| ![EXACT, NOT_OLDER_THAN].contains(asked)) {
        let supported = "\"Exact\", \"NotOlderThan\", \"\"";
        wrong.push(format!("{MATCH}: Unsupported value: \"{other}\": supported values: {supported}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(ApiError::Options { kind: "ListOptions", why: Causes(wrong) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/?{text}").parse().unwrap())
    }

    #[test]
    fn each_read_has_who_answers_it_in_old_servers_and_in_new_ones() {
        use Read::{Cache, Storage, Version};
        use Verb::{Get, List, Watch};
        for (verb, text, old, new) in [
            (Get, "", Storage, Storage),
            (Get, "resourceVersion=0", Cache, Cache),
            (List, "", Storage, Version),
            (List, "limit=100", Storage, Version),
            (List, "limit=100&continue=x", Storage, Cache),
            (List, "resourceVersion=0", Cache, Cache),
            (List, "resourceVersion=0&limit=100", Cache, Cache),
            (List, "resourceVersion=7", Cache, Cache),
            (List, "resourceVersion=7&resourceVersionMatch=NotOlderThan", Cache, Cache),
            (List, "resourceVersion=7&limit=100", Storage, Cache),
            (List, "resourceVersion=7&resourceVersionMatch=Exact", Storage, Cache),
            (Watch, "", Cache, Cache),
            (Watch, "resourceVersion=7", Cache, Cache),
            (Watch, "sendInitialEvents=true&resourceVersion=0", Cache, Cache),
            (Watch, "sendInitialEvents=true&resourceVersion=7", Cache, Cache),
            (Watch, "sendInitialEvents=true", Version, Version),
        ] {
            assert_eq!(read(verb, &query(text), Gates::OLDEST), Ok(Some(old)), "{verb} {text}");
            assert_eq!(read(verb, &query(text), Gates::default()), Ok(Some(new)), "{verb} {text}");
        }
        assert_eq!(read(Verb::Patch, &query(""), Gates::default()), Ok(None));
    }

    #[test]
    fn an_etcd_without_progress_has_no_streamed_lists_and_no_consistent_reads_from_the_cache() {
        let gates = Gates { request_watch_progress: false, ..Gates::default() };
        let streamed = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersion=0";
        assert_eq!(read(Verb::Watch, &query(streamed), gates), Ok(None));
        assert_eq!(read(Verb::Watch, &query("resourceVersion=7"), gates), Ok(Some(Read::Cache)));
        assert_eq!(read(Verb::List, &query(""), gates), Ok(Some(Read::Storage)));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let of = |verb, text: &str, gates| {
            validate(verb, &query(text), gates).err().map(|error| error.code().as_u16())
        };
        let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0";
        for (verb, text, wanted) in [
            (Verb::Watch, streamed, None),
            (Verb::Watch, "sendInitialEvents=true", Some(422)),
            (Verb::Watch, "resourceVersion=7&resourceVersionMatch=NotOlderThan", Some(422)),
            (Verb::Watch, "resourceVersion=7", None),
            (Verb::List, "resourceVersion=7&resourceVersionMatch=NotOlderThan", None),
            (Verb::List, "resourceVersion=7&resourceVersionMatch=Newest", Some(422)),
            (Verb::List, "resourceVersionMatch=NotOlderThan", Some(422)),
            (Verb::List, "resourceVersionMatch=Exact&resourceVersion=0", Some(422)),
            (Verb::List, "resourceVersionMatch=Exact&resourceVersion=7&continue=x", Some(422)),
            (Verb::List, "sendInitialEvents=true", Some(422)),
        ] {
            assert_eq!(of(verb, text, Gates::default()), wanted, "{verb} {text}");
        }
        assert_eq!(of(Verb::Watch, streamed, Gates::OLDEST), Some(422));
    }
}
