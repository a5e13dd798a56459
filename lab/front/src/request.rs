// SPDX-License-Identifier: Apache-2.0
//! Attributes of a request: `RequestInfo` of the real server (`apiserver/pkg/endpoints/request/requestinfo.go`), from method, path and
//! query, for any resource. Pure.

use std::time::Duration;

use cluster::{Asked, InitialEvents, Verb};
use http::request::Parts;
use http::{HeaderMap, Method};
use listen::{Query, decoded};

use crate::identity::Identity;

/// Target of a request.
struct Target {
    /// With group and subresource.
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
}

/// What arrived; `at` is the time since the front began.
pub(crate) fn asked(parts: &Parts, at: Duration) -> Asked {
    let Parts { method, uri, headers, .. } = parts;
    let query = Query::of(uri);
    let target = target(uri.path());
    let verb = verb(method, target.as_ref(), &query);
    let Identity { user, pod } = Identity::of(headers);
    let streams =
        verb == Verb::Watch && query.is_true("sendInitialEvents") && query.is_true("allowWatchBookmarks");
    let selected = query.get("fieldSelector").and_then(exact_name).map(str::to_owned);
    let (resource, namespace, name) = match target {
        Some(Target { resource, namespace, name }) => (Some(resource), namespace, name.or(selected)),
        None => (None, None, None),
    };
    Asked {
        order: 0,
        at,
        verb,
        path: uri.path().to_owned(),
        query: uri.query().map(str::to_owned),
        resource,
        namespace,
        name,
        user,
        pod: pod.map(|pod| pod.name),
        code: None,
        denied: None,
        initial: streams.then_some(InitialEvents::Pending),
    }
}

/// True if the connection is to become something else than HTTP.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(http::header::UPGRADE)
}

fn verb(method: &Method, target: Option<&Target>, query: &Query) -> Verb {
    let is_collection = target.is_some_and(|target| target.name.is_none());
    match method.as_str() {
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" if is_collection => Verb::DeleteCollection,
        "DELETE" => Verb::Delete,
        _ if is_collection && query.is_true("watch") => Verb::Watch,
        _ if is_collection => Verb::List,
        _ => Verb::Get,
    }
}

fn target(path: &str) -> Option<Target> {
    let parts: Vec<String> = path.split('/').skip(1).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _version, rest @ ..] => ("", rest),
        ["apis", group, _version, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        // A namespace is in itself.
        ["namespaces", own] | ["namespaces", own, "status" | "finalize"] => (Some(own), rest),
        ["namespaces", namespace, rest @ ..] => (Some(namespace), rest),
        rest => (None, rest),
    };
    let namespace = namespace.filter(|name| !name.is_empty()).map(|name| (*name).to_owned());
    let (plural, rest) = rest.split_first().filter(|(plural, _)| !plural.is_empty())?;
    let dot = if group.is_empty() { "" } else { "." };
    let name = rest.first().filter(|name| !name.is_empty()).map(|name| (*name).to_owned());
    let sub = rest.get(1).map(|sub| format!("/{sub}")).unwrap_or_default();
    Some(Target { resource: format!("{plural}{dot}{group}{sub}"), namespace, name })
}

/// The name that a field selector asks for, and nothing beside it.
fn exact_name(selector: &str) -> Option<&str> {
    let mut names = selector.split(',').filter_map(|term| term.trim().strip_prefix("metadata.name="));
    names.next().map(|name| name.strip_prefix('=').unwrap_or(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, target: &str) -> Asked {
        let request = http::Request::builder().method(method).uri(target).body(()).unwrap();
        asked(&request.into_parts().0, Duration::ZERO)
    }

    #[test]
    fn methods_and_paths_become_verbs_and_resources() {
        let by = "fieldSelector=metadata.name%3Db%2Cspec.nodeName%3Dn";
        for (method, path, verb, resource, name) in [
            (Method::GET, "/api/v1/pods", Verb::List, Some("pods"), None),
            (Method::GET, "/api/v1/pods?watch=true", Verb::Watch, Some("pods"), None),
            (Method::GET, "/api/v1/namespaces/a/pods/b?watch=1", Verb::Get, Some("pods"), Some("b")),
            (Method::GET, &format!("/api/v1/pods?{by}"), Verb::List, Some("pods"), Some("b")),
            (
                Method::PATCH,
                "/api/v1/namespaces/a/pods/b/status",
                Verb::Patch,
                Some("pods/status"),
                Some("b"),
            ),
            (Method::POST, "/api/v1/namespaces/a/pods", Verb::Create, Some("pods"), None),
            (Method::GET, "/api/v1/namespaces", Verb::List, Some("namespaces"), None),
            (Method::GET, "/api/v1/namespaces/a", Verb::Get, Some("namespaces"), Some("a")),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                Verb::Update,
                Some("namespaces/finalize"),
                Some("a"),
            ),
            (Method::DELETE, "/api/v1/namespaces/a/pods", Verb::DeleteCollection, Some("pods"), None),
            (Method::DELETE, "/api/v1/nodes/n", Verb::Delete, Some("nodes"), Some("n")),
            (Method::GET, "/apis/apps/v1/daemonsets", Verb::List, Some("daemonsets.apps"), None),
            (
                Method::GET,
                "/apis/any.io/v1/things/x/scale",
                Verb::Get,
                Some("things.any.io/scale"),
                Some("x"),
            ),
            (Method::GET, "/api/v1/namespaces/a/pods/b%2Bc", Verb::Get, Some("pods"), Some("b+c")),
            (Method::POST, "/api/v1/namespaces/a/pods/b/exec", Verb::Create, Some("pods/exec"), Some("b")),
            (Method::GET, "/apis/apps/v1", Verb::Get, None, None),
            (Method::GET, "/version", Verb::Get, None, None),
        ] {
            let seen = of(&method, path);
            assert_eq!(
                (seen.verb, seen.resource.as_deref(), seen.name.as_deref()),
                (verb, resource, name),
                "{path}"
            );
        }
    }

    #[test]
    fn a_path_has_a_namespace_and_a_namespace_is_in_itself() {
        for (path, namespace) in [
            ("/api/v1/namespaces/a/pods/b/status", Some("a")),
            ("/apis/apps/v1/namespaces/a/daemonsets", Some("a")),
            ("/api/v1/namespaces/a", Some("a")),
            ("/api/v1/namespaces/a/status", Some("a")),
            ("/api/v1/namespaces", None),
            ("/api/v1/nodes/n", None),
        ] {
            assert_eq!(of(&Method::GET, path).namespace.as_deref(), namespace, "{path}");
        }
    }

    #[test]
    fn a_list_is_streamed_if_its_end_is_to_be_marked() {
        for (query, wanted) in [
            ("watch=true&sendInitialEvents=true&allowWatchBookmarks=true", Some(InitialEvents::Pending)),
            ("watch=true&sendInitialEvents=true", None),
            ("watch=true&allowWatchBookmarks=true", None),
            ("sendInitialEvents=true&allowWatchBookmarks=true", None),
        ] {
            assert_eq!(of(&Method::GET, &format!("/api/v1/pods?{query}")).initial, wanted, "{query}");
        }
    }
}
