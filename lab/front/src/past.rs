// SPDX-License-Identifier: Apache-2.0
//! Lists that a watch cache answers which is behind: of several API servers each has its own. Pure.

use cluster::Verb;
use http::Uri;
use listen::Query;

/// The same list as of version `then`; `None` if only a server that knows more can answer it. As in `apiserver::reads`: a cache answers a list of
/// any version (`resourceVersion=0`), and one that is not older than a version that it has seen. It does not page.
pub(crate) fn list(verb: Verb, uri: &Uri, then: u64) -> Option<Uri> {
    let query = Query::of(uri);
    let wanted: u64 = query.get("resourceVersion")?.parse().ok()?;
    let is_of_cache = query.get("continue").is_none() && query.get("resourceVersionMatch") != Some("Exact");
    if verb != Verb::List || !is_of_cache || wanted > then {
        return None;
    }
    let then = [("resourceVersion", then.to_string()), ("resourceVersionMatch", "Exact".to_owned())];
    let kept = query.without(&["limit", "resourceVersion", "resourceVersionMatch"]);
    format!("{}?{}", uri.path(), kept.with(then).text()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_accepts_from_any_cache_is_of_then_and_the_rest_is_of_now() {
        let of = |query: &str| {
            let uri: Uri = format!("/api/v1/pods?{query}").parse().unwrap();
            list(Verb::List, &uri, 7).map(|uri| uri.query().unwrap_or_default().to_owned())
        };
        let then = "resourceVersion=7&resourceVersionMatch=Exact";
        assert_eq!(of("resourceVersion=0").as_deref(), Some(then));
        let selected = format!("fieldSelector=a%3Db&{then}");
        assert_eq!(of("limit=100&resourceVersion=0&fieldSelector=a%3Db").as_deref(), Some(&*selected));
        assert_eq!(of("resourceVersion=7&resourceVersionMatch=NotOlderThan").as_deref(), Some(then));
        for fresh in [
            "",
            "limit=100",
            "resourceVersion=8&resourceVersionMatch=NotOlderThan",
            "resourceVersion=7&resourceVersionMatch=Exact",
            "limit=100&continue=x",
        ] {
            assert_eq!(of(fresh), None, "{fresh}");
        }
        assert_eq!(list(Verb::Watch, &"/api/v1/pods?resourceVersion=0".parse().unwrap(), 7), None);
    }
}
