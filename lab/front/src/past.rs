// SPDX-License-Identifier: Apache-2.0
//! Answers from what was some changes ago, as a server gives them whose cache is behind. A resource version counts the changes of a whole
//! cluster, so "n changes ago" is the newest version less n. Lists name a version with `resourceVersionMatch=Exact`; a single object cannot
//! be read so, but as a list of one.
//!
//! The lab asks for the past itself, as a sender who may get an object may not list it. Whether the sender may is asked first, by sending
//! the request on.

use bytes::Bytes;
use cluster::{Asked, Verb};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kube::Client;
use listen::{Body, BoxError, Query};
use serde_json::{Value, json};

use crate::answer::whole;
use crate::forward::Unreachable;

/// A cluster's past, as one client sees it.
pub(crate) struct Past<'a> {
    pub(crate) own: &'a Client,
    pub(crate) asked: &'a Asked,
    pub(crate) changes: u64,
}

impl Past<'_> {
    /// The query of a watch that begins that much earlier; `None` if it is to be left alone.
    pub(crate) async fn watch(&self, uri: &Uri) -> Result<Option<Uri>, BoxError> {
        let query = Query::of(uri);
        if query.get("sendInitialEvents").is_some() {
            return Ok(None);
        }
        let from = match query.get("resourceVersion").and_then(|text| text.parse().ok()) {
            Some(0) | None => self.newest().await?,
            Some(version) => version,
        };
        let earlier = self.before(from);
        Ok(Some(format!("{}?{}", uri.path(), query.with(&[("resourceVersion", &earlier)]).text()).parse()?))
    }

    /// Answer to a read that the sender was allowed.
    pub(crate) async fn read(&self, uri: &Uri) -> Result<Response<Body>, BoxError> {
        let then = self.before(self.newest().await?);
        let exact = [("resourceVersion", then.as_str()), ("resourceVersionMatch", "Exact")];
        if self.asked.verb == Verb::List {
            let (code, bytes) = self.list(&Query::of(uri).with(&exact).text()).await?;
            return Ok(whole(code, bytes));
        }
        let name = self.asked.name.clone().unwrap_or_default();
        let query = Query::of(&self.collection().parse()?).with(&exact);
        let query = query.with(&[("fieldSelector", &format!("metadata.name={name}"))]);
        let (code, bytes) = self.list(&query.text()).await?;
        if !code.is_success() {
            return Ok(whole(code, bytes));
        }
        let mut list: Value = serde_json::from_slice(&bytes)?;
        let Some(mut object) = list["items"].as_array_mut().and_then(Vec::pop) else {
            return Ok(not_found(self.asked, &name));
        };
        // Items of a list have neither.
        let kind = list["kind"].as_str().unwrap_or_default();
        (object["kind"], object["apiVersion"]) =
            (json!(kind.strip_suffix("List")), list["apiVersion"].take());
        Ok(whole(StatusCode::OK, object.to_string().into()))
    }

    fn before(&self, version: u64) -> String {
        version.saturating_sub(self.changes).max(1).to_string()
    }

    /// Path of the collection that is read, or that has the object.
    fn collection(&self) -> &str {
        let path = self.asked.path.as_str();
        if self.asked.verb == Verb::Get {
            path.rsplit_once('/').map_or(path, |(above, _)| above)
        } else {
            path
        }
    }

    /// The newest version of the cluster.
    async fn newest(&self) -> Result<u64, BoxError> {
        let (_, bytes) = self.list("limit=1").await?;
        let list: Value = serde_json::from_slice(&bytes)?;
        Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse()?)
    }

    async fn list(&self, query: &str) -> Result<(StatusCode, Bytes), BoxError> {
        let request =
            Request::get(format!("{}?{query}", self.collection())).body(kube::client::Body::empty())?;
        let response = self.own.send(request).await.map_err(Unreachable::from)?;
        Ok((response.status(), response.into_body().collect().await?.to_bytes()))
    }
}

fn not_found(asked: &Asked, name: &str) -> Response<Body> {
    let resource = asked.resource.as_deref().unwrap_or_default();
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
        "message": format!("{resource} \"{name}\" not found"),
        "details": { "name": name, "group": group, "kind": plural },
    });
    whole(StatusCode::NOT_FOUND, status.to_string().into())
}
