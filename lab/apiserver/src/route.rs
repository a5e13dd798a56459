// SPDX-License-Identifier: Apache-2.0
//! Parser of requests: verb, target and parameters, from method, path and query. No state.

pub use cluster::Verb;
use http::Method;
pub(crate) use listen::Query;
use listen::decoded;

use crate::error::ApiError;
use crate::kinds::{Kind, Scope};
use crate::selector::exact_name;
use crate::store::Collection;

/// Group of reviews.
pub(crate) const REVIEWS: &str = "authorization.k8s.io";

fn verb(method: &Method, shape: Shape) -> Verb {
    match (method.as_str(), shape) {
        (_, Shape::Watch) => Verb::Watch,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", Shape::Collection) => Verb::DeleteCollection,
        ("DELETE", _) => Verb::Delete,
        (_, Shape::Collection) => Verb::List,
        _ => Verb::Get,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Object,
    Collection,
    Watch,
}

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An object or a collection.
    Resource {
        collection: Collection,
        name: Option<String>,
        subresource: Option<String>,
    },
    Review(Review),
    /// Discovery, version, health.
    Path,
    /// Not found.
    Nothing,
}

/// Kind of an access review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Review {
    SelfSubject,
    Subject,
}

impl Review {
    const ALL: [Self; 2] = [Self::SelfSubject, Self::Subject];

    /// `kind` in objects.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::SelfSubject => "SelfSubjectAccessReview",
            Self::Subject => "SubjectAccessReview",
        }
    }

    pub(crate) fn plural(self) -> String {
        format!("{}s", self.kind().to_lowercase())
    }

    fn of(path: &str) -> Option<Self> {
        let plural = path.strip_prefix("/apis/")?.strip_prefix(REVIEWS)?.strip_prefix("/v1/")?;
        Self::ALL.into_iter().find(|review| review.plural() == plural)
    }
}

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
}

impl Route {
    pub(crate) fn of(method: &Method, path: &str, query: &Query) -> Self {
        let target = target(path);
        let shape = match &target {
            Target::Resource { name: None, .. } if query.is_true("watch") && method == Method::GET => {
                Shape::Watch
            }
            Target::Resource { name: None, .. } => Shape::Collection,
            _ => Shape::Object,
        };
        Self { verb: verb(method, shape), target }
    }

    /// The resource as in [`crate::Grant::new`], and the object; of a list or a watch, the name that its field selector asks for.
    pub(crate) fn named(&self, query: &Query) -> (Option<String>, Option<String>) {
        match &self.target {
            Target::Resource { collection, name, subresource } => {
                let sub = subresource.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
                let selected = query.get("fieldSelector").and_then(exact_name);
                let name = name.clone().or_else(|| selected.map(str::to_owned));
                (Some(format!("{}{sub}", collection.kind.qualified())), name)
            }
            Target::Review(review) => (Some(format!("{}.{REVIEWS}", review.plural())), None),
            Target::Path | Target::Nothing => (None, None),
        }
    }
}

fn target(path: &str) -> Target {
    if let Some(review) = Review::of(path) {
        return Target::Review(review);
    }
    let parts: Vec<String> = path.split('/').skip(1).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Target::Path,
    };
    if rest.iter().all(|part| part.is_empty()) {
        return Target::Path;
    }
    let (namespace, plural, rest) = match rest {
        ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status"] => (None, "namespaces", &rest[1..]),
        ["namespaces", namespace, plural, rest @ ..] => (Some((*namespace).to_owned()), *plural, rest),
        [plural, rest @ ..] => (None, *plural, rest),
        [] => return Target::Path,
    };
    let (name, subresource) = match rest {
        [] => (None, None),
        [name] => (Some((*name).to_owned()), None),
        [name, sub] | [name, sub @ "proxy", ..] => (Some((*name).to_owned()), Some((*sub).to_owned())),
        _ => return Target::Nothing,
    };
    let Some(kind) = Kind::find(group, version, plural) else { return Target::Nothing };
    let served = |sub: &String| {
        (sub == "status" && kind.has_status())
            || kind.actions().iter().any(|action| action.name == sub.as_str())
    };
    let placed = match kind.scope {
        Scope::Cluster => namespace.is_none(),
        Scope::Namespaced => namespace.is_some() || name.is_none(),
    };
    if !placed || !subresource.as_ref().is_none_or(served) || name.as_ref().is_some_and(String::is_empty) {
        return Target::Nothing;
    }
    Target::Resource { collection: Collection { kind, namespace }, name, subresource }
}

/// A parameter that is a number.
pub(crate) fn number(query: &Query, name: &str) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let (what, how) = match name {
        "resourceVersion" => ("invalid resource version: resourceVersion: Invalid value: \"", "ParseUint"),
        _ => ("", "ParseInt"),
    };
    let what = if what.is_empty() { String::new() } else { format!("{what}{text}\": ") };
    let bad = |_| ApiError::BadRequest(format!("{what}strconv.{how}: parsing \"{text}\": invalid syntax"));
    text.parse().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{Query, Route, Target, Verb};

    fn route(method: &Method, path: &str, query: &str) -> (Verb, Option<String>) {
        let query = Query::of(&format!("/?{query}").parse().unwrap());
        let route = Route::of(method, path, &query);
        let seen = match route.target {
            Target::Resource { collection, name, subresource } => Some(format!(
                "{} {} {} {}",
                collection.kind.qualified(),
                collection.namespace.as_deref().unwrap_or("-"),
                name.as_deref().unwrap_or("-"),
                subresource.as_deref().unwrap_or("-")
            )),
            Target::Path => Some("path".to_owned()),
            Target::Review(review) => Some(review.kind().to_owned()),
            Target::Nothing => None,
        };
        (route.verb, seen)
    }

    #[test]
    fn paths_and_methods_become_verbs_and_targets() {
        let cases = [
            (Method::GET, "/api/v1/pods", "", Verb::List, Some("pods - - -")),
            (Method::GET, "/api/v1/pods", "watch=true", Verb::Watch, Some("pods - - -")),
            (Method::GET, "/api/v1/namespaces/a/pods/b", "watch=1", Verb::Get, Some("pods a b -")),
            (Method::PATCH, "/api/v1/namespaces/a/pods/b/status", "", Verb::Patch, Some("pods a b status")),
            (Method::POST, "/api/v1/namespaces/a/pods", "", Verb::Create, Some("pods a - -")),
            (Method::GET, "/api/v1/namespaces/a", "", Verb::Get, Some("namespaces - a -")),
            (Method::PUT, "/api/v1/namespaces/a/status", "", Verb::Update, Some("namespaces - a status")),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "", Verb::DeleteCollection, Some("pods a - -")),
            (Method::GET, "/apis/apps/v1/daemonsets", "", Verb::List, Some("daemonsets.apps - - -")),
            (Method::GET, "/api/v1/namespaces/a/pods/b%2Bc", "", Verb::Get, Some("pods a b+c -")),
            (Method::GET, "/api/v1/namespaces/a/pods/b/log", "follow=true", Verb::Get, Some("pods a b log")),
            (Method::POST, "/api/v1/namespaces/a/pods/b/exec", "", Verb::Create, Some("pods a b exec")),
            (Method::GET, "/api/v1/namespaces/a/pods/b:1/proxy/c/d", "", Verb::Get, Some("pods a b:1 proxy")),
            (Method::GET, "/api/v1/namespaces/a/services/b/proxy/c", "", Verb::Get, None),
            (Method::GET, "/apis/apps/v1", "", Verb::Get, Some("path")),
            (
                Method::POST,
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                "",
                Verb::Create,
                Some("SubjectAccessReview"),
            ),
            (Method::GET, "/api/v1/pods/b", "", Verb::Get, None),
            (Method::GET, "/api/v1/namespaces/a/nodes/b", "", Verb::Get, None),
            (Method::GET, "/api/v1/namespaces/a/configmaps/b/status", "", Verb::Get, None),
            (Method::GET, "/api/v1/widgets", "", Verb::Get, None),
        ];
        for (method, path, query, verb, target) in cases {
            let expected = (verb, target.map(str::to_owned));
            assert_eq!(route(&method, path, query), expected, "{path}?{query}");
        }
    }
}
