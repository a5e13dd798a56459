// SPDX-License-Identifier: Apache-2.0
//! Collections that can be followed: by an agent never more than its node's share.

use std::time::Duration;

use http::Request;

use super::client::not_sent;
use super::error::ApiError;

/// Objects in a page. Small, because a page of a server that reads it from its store costs that server a page of memory, too.
const PAGE: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot follow the node's pods without the node's name (set NODE_NAME or REPAIR_NODE_NAME): all pods of the cluster are too many"
)]
pub struct NoNode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Name in logs and metrics.
    pub name: &'static str,
    path: String,
    fields: String,
    labels: String,
}

/// Required freshness of a list. An API server answers the first two from its watch cache, if it has one; the last one costs etcd a read,
/// of the objects or (with `ConsistentListFromCache`, on since Kubernetes 1.31) of the current version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Any version (`resourceVersion=0`): the watch that follows catches up.
    AtHand,
    /// At least this version, so that nothing goes back in time.
    NotOlderThan(String),
    /// Most recent.
    Latest,
}

/// `resourceVersionMatch` for both that are served from the watch cache.
const NOT_OLDER_THAN: (&str, &str) = ("resourceVersionMatch", "NotOlderThan");

impl Resource {
    /// The pods of a node, of all namespaces.
    ///
    /// # Errors
    /// [`NoNode`] if `node` is empty.
    pub fn pods_of(node: &str) -> Result<Self, NoNode> {
        if node.is_empty() {
            return Err(NoNode);
        }
        Ok(Self::pods("", "", &format!("spec.nodeName={node}")))
    }

    #[must_use]
    pub fn config_map(namespace: &str, name: &str) -> Self {
        Self::one("configmaps", namespace, name)
    }

    #[must_use]
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::one("pods", namespace, name)
    }

    /// The pods of a namespace, or of all if it is empty, that both selectors select.
    #[must_use]
    pub fn pods(namespace: &str, labels: &str, fields: &str) -> Self {
        let path = match namespace {
            "" => "/api/v1/pods".to_owned(),
            _ => format!("/api/v1/namespaces/{namespace}/pods"),
        };
        Self { name: "pods", path, fields: fields.to_owned(), labels: labels.to_owned() }
    }

    /// All nodes. Only for a controller of the cluster.
    #[must_use]
    pub fn nodes() -> Self {
        let path = "/api/v1/nodes".to_owned();
        Self { name: "nodes", path, fields: String::new(), labels: String::new() }
    }

    /// All namespaces. Only where their labels decide on pods.
    #[must_use]
    pub fn namespaces() -> Self {
        let path = "/api/v1/namespaces".to_owned();
        Self { name: "namespaces", path, fields: String::new(), labels: String::new() }
    }

    #[must_use]
    pub fn node(name: &str) -> Self {
        Self { fields: format!("metadata.name={name}"), ..Self::nodes() }
    }

    #[must_use]
    pub fn daemon_set(namespace: &str, name: &str) -> Self {
        let plural = "daemonsets";
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{plural}");
        Self { path, ..Self::one(plural, namespace, name) }
    }

    fn one(plural: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            name: plural,
            path: format!("/api/v1/namespaces/{namespace}/{plural}"),
            fields: format!("metadata.name={name}"),
            labels: String::new(),
        }
    }

    /// Request of a page.
    pub(super) fn list(
        &self,
        freshness: &Freshness,
        from: Option<&str>,
    ) -> Result<Request<Vec<u8>>, ApiError> {
        let limit = || ("limit", PAGE.to_string());
        self.query(match (from, freshness) {
            // A page belongs to the version of the first one.
            (Some(from), _) => vec![limit(), ("continue", from.to_owned())],
            (None, Freshness::AtHand) => vec![limit(), ("resourceVersion", "0".to_owned())],
            // No limit: with one, a server reads this from etcd, and at exactly this version, which may be compacted.
            (None, Freshness::NotOlderThan(version)) => {
                vec![("resourceVersion", version.clone()), own(NOT_OLDER_THAN)]
            }
            (None, Freshness::Latest) => vec![limit()],
        })
    }

    /// The request for a watch that begins with everything that there is, and says when that is over. The server ends it after `time`.
    pub(super) fn stream(&self, freshness: &Freshness, time: Duration) -> Result<Request<Vec<u8>>, ApiError> {
        let version = match freshness {
            Freshness::AtHand => Some("0"),
            Freshness::NotOlderThan(version) => Some(version.as_str()),
            Freshness::Latest => None,
        };
        let mut pairs = watching(version, time);
        pairs.extend([own(("sendInitialEvents", "true")), own(NOT_OLDER_THAN)]);
        self.query(pairs)
    }

    /// The request for what happens after `version`. The server ends it after `time`.
    pub(super) fn watch(&self, version: &str, time: Duration) -> Result<Request<Vec<u8>>, ApiError> {
        self.query(watching(Some(version), time))
    }

    fn query(&self, pairs: Vec<(&str, String)>) -> Result<Request<Vec<u8>>, ApiError> {
        let selectors = [("fieldSelector", self.fields.clone()), ("labelSelector", self.labels.clone())];
        let pairs = pairs.into_iter().chain(selectors.into_iter().filter(|(_, value)| !value.is_empty()));
        let query: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", encoded(&value))).collect();
        let request = Request::get(format!("{}?{}", self.path, query.join("&"))).body(Vec::new());
        request.map_err(|error| not_sent(&error))
    }
}

fn own((key, value): (&'static str, &str)) -> (&'static str, String) {
    (key, value.to_owned())
}

fn watching(version: Option<&str>, time: Duration) -> Vec<(&'static str, String)> {
    let mut pairs = vec![own(("watch", "true")), own(("allowWatchBookmarks", "true"))];
    pairs.extend(version.map(|version| own(("resourceVersion", version))));
    pairs.push(("timeoutSeconds", time.as_secs().to_string()));
    pairs
}

/// Percent-encoded value of a parameter.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(request: Result<Request<Vec<u8>>, ApiError>) -> String {
        request.unwrap().uri().to_string()
    }

    #[test]
    fn the_pods_of_no_node_are_not_the_pods_of_all() {
        assert_eq!(Resource::pods_of(""), Err(NoNode));
    }

    #[test]
    fn a_list_selects_at_the_server_and_comes_in_pages() {
        let pods = Resource::pods_of("n&1").unwrap();
        assert_eq!(
            uri(pods.list(&Freshness::AtHand, None)),
            "/api/v1/pods?limit=100&resourceVersion=0&fieldSelector=spec.nodeName%3Dn%261"
        );
        assert_eq!(
            uri(pods.list(&Freshness::AtHand, Some("a=="))),
            "/api/v1/pods?limit=100&continue=a%3D%3D&fieldSelector=spec.nodeName%3Dn%261"
        );
        let map = Resource::config_map("istio-system", "istio-cni-config");
        assert_eq!(
            uri(map.list(&Freshness::Latest, None)),
            "/api/v1/namespaces/istio-system/configmaps?limit=100&fieldSelector=metadata.name%3Distio-cni-config"
        );
    }

    #[test]
    fn a_list_that_is_not_older_has_no_limit() {
        let pods = Resource::pods_of("n").unwrap();
        assert_eq!(
            uri(pods.list(&Freshness::NotOlderThan("7".to_owned()), None)),
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=NotOlderThan&fieldSelector=spec.nodeName%3Dn"
        );
    }

    #[test]
    fn a_streamed_list_is_a_watch_that_says_where_the_list_ends() {
        let pods = Resource::pods("", "a=b", "");
        for (freshness, version) in [
            (Freshness::AtHand, "&resourceVersion=0"),
            (Freshness::NotOlderThan("7".to_owned()), "&resourceVersion=7"),
            (Freshness::Latest, ""),
        ] {
            let expected = format!(
                "/api/v1/pods?watch=true&allowWatchBookmarks=true{version}&timeoutSeconds=90&sendInitialEvents=true\
                 &resourceVersionMatch=NotOlderThan&labelSelector=a%3Db"
            );
            assert_eq!(uri(pods.stream(&freshness, Duration::from_secs(90))), expected);
        }
    }

    #[test]
    fn a_watch_goes_on_from_a_version_and_wants_bookmarks() {
        let request = Resource::pod("a", "b").watch("7", Duration::from_secs(90));
        assert_eq!(
            uri(request),
            "/api/v1/namespaces/a/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=90\
             &fieldSelector=metadata.name%3Db"
        );
    }
}
