// SPDX-License-Identifier: Apache-2.0
//! Who asks, as the claims of a bearer token have it. Nothing is verified: whether a token is good is the server's to say, with the code of
//! its answer. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Deserialize;

/// User without credentials, as the API server has it.
const ANONYMOUS: &str = "system:anonymous";
/// User whose token is no JWT.
const OPAQUE: &str = "(opaque token)";

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    /// Pod that the token is bound to.
    pub(crate) pod: Option<BoundPod>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(rename = "kubernetes.io", default)]
    about: About,
}

#[derive(Default, Deserialize)]
struct About {
    pod: Option<BoundPod>,
}

/// A pod, as a token names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BoundPod {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
}

impl Identity {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Self { user: ANONYMOUS.to_owned(), pod: None };
        };
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        match token.and_then(claims) {
            Some(Claims { sub, about }) => Self { user: sub, pod: about.pod },
            None => Self { user: OPAQUE.to_owned(), pod: None },
        }
    }
}

fn claims(token: &str) -> Option<Claims> {
    let part = token.trim().split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(header: Option<String>) -> (String, Option<String>) {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        let Identity { user, pod } = Identity::of(&headers);
        (user, pod.map(|pod| pod.name))
    }

    #[test]
    fn a_token_says_whose_it_is_and_of_which_pod() {
        let token = |claims: &str| Some(format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims)));
        let bound = r#"{"sub":"system:serviceaccount:a:b","kubernetes.io":{"pod":{"name":"p","uid":"u"}}}"#;
        for (header, user, pod) in [
            (None, "system:anonymous", None),
            (token(bound), "system:serviceaccount:a:b", Some("p")),
            (token(r#"{"sub":"system:serviceaccount:a:b"}"#), "system:serviceaccount:a:b", None),
            (token("{}"), "(opaque token)", None),
            (Some("Bearer secret".to_owned()), "(opaque token)", None),
            (Some("Basic YTpi".to_owned()), "(opaque token)", None),
        ] {
            assert_eq!(of(header.clone()), (user.to_owned(), pod.map(str::to_owned)), "{header:?}");
        }
    }
}
