// SPDX-License-Identifier: Apache-2.0
//! A registry that nodes pull from (OCI distribution specification 1.1, pull only), over HTTP in the lab's own network.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use listen::{Answer, Body, Handler};

use crate::image::{Image, MANIFEST};

/// Name under which nodes know it.
pub const NAME: &str = "lab.local";
/// Its port.
pub const PORT: u16 = 5000;

/// Header of an answer about a manifest or a blob.
const DIGEST: &str = "docker-content-digest";

/// The images, by name and tag, and their blobs.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Content>);

#[derive(Debug)]
struct Content {
    tags: BTreeMap<String, String>,
    blobs: BTreeMap<String, Bytes>,
}

impl Registry {
    #[must_use]
    pub fn new(images: Vec<Image>) -> Self {
        let tags = images.iter().map(|image| (image.name.clone(), image.manifest.clone())).collect();
        let blobs = images.into_iter().flat_map(|image| image.blobs);
        Self(Arc::new(Content {
            tags,
            blobs: blobs.map(|(digest, content)| (digest, content.into())).collect(),
        }))
    }

    /// Manifest or blob of a path: digest, media type, content.
    fn find(&self, path: &str) -> Option<(&str, &'static str, &Bytes)> {
        let rest = path.strip_prefix("/v2/")?;
        let (digest, kind) = if let Some((name, reference)) = rest.split_once("/manifests/") {
            let tagged = || self.0.tags.get(&format!("{name}:{reference}")).map(String::as_str);
            (if reference.starts_with("sha256:") { Some(reference) } else { tagged() }?, MANIFEST)
        } else {
            (rest.split_once("/blobs/")?.1, "application/octet-stream")
        };
        let (digest, content) = self.0.blobs.get_key_value(digest)?;
        Some((digest, kind, content))
    }

    fn answered(&self, method: &Method, path: &str) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        if path == "/v2/" {
            return response;
        }
        let Some((digest, kind, content)) = self.find(path) else {
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        headers.insert(CONTENT_LENGTH, content.len().into());
        headers.extend(digest.parse().map(|digest| (http::HeaderName::from_static(DIGEST), digest)));
        if method != Method::HEAD {
            *response.body_mut() = content.clone();
        }
        response
    }
}

impl Handler for Registry {
    fn answer(self, request: Request<Incoming>) -> Answer {
        Box::pin(async move {
            let answered = self.answered(request.method(), request.uri().path());
            Ok(answered.map(|content| Body::new(Full::new(content).map_err(|never| match never {}))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_tag_and_by_digest_and_leads_to_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::write(&program, "#!").unwrap();
        let image = Image::of("pause:1", &[("/pause", program)], &["/pause"]).unwrap();
        let registry = Registry::new(vec![image.clone()]);
        let by_tag = registry.answered(&Method::GET, "/v2/pause/manifests/1");
        assert_eq!(by_tag.headers()[DIGEST], image.manifest.as_str());
        let by_digest = registry.answered(&Method::GET, &format!("/v2/pause/manifests/{}", image.manifest));
        assert_eq!(by_tag.body(), by_digest.body());
        let manifest: serde_json::Value = serde_json::from_slice(by_tag.body()).unwrap();
        let layer = manifest["layers"][0]["digest"].as_str().unwrap();
        let head = registry.answered(&Method::HEAD, &format!("/v2/pause/blobs/{layer}"));
        assert_eq!((head.status(), head.body().len()), (StatusCode::OK, 0));
        assert_eq!(head.headers()[CONTENT_LENGTH], manifest["layers"][0]["size"].to_string().as_str());
        for path in ["/v2/pause/manifests/2", "/v2/other/manifests/1", "/v2/pause/blobs/sha256:0", "/"] {
            assert_eq!(registry.answered(&Method::GET, path).status(), StatusCode::NOT_FOUND, "{path}");
        }
    }
}
