// SPDX-License-Identifier: Apache-2.0
//! Messages between the plugin and the node agent, over the Unix stream socket [`SOCKET`] in the run directory.
//!
//! One request and one response per connection, each one line of JSON ended by `\n`, at most [`MAX_LINE`] long.
//!
//! Plugin and agent are upgraded apart, so each meets older and newer ones of the other:
//!
//! * Either side ignores fields that it does not know. A field that is added later has a default.
//! * A request carries the highest version its sender speaks; the reply carries the version it is written in, never higher
//!   than the request's ([`Reply::to`]).
//! * An agent answers [`Response::Unsupported`] to a request that it can not read, one of an unknown kind included.
//! * A plugin reads a response of an unknown kind as [`Response::Unsupported`], and treats that, or a line that it can
//!   not read, as "no agent": it asks the API server.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::pod::PodFacts;

/// The socket's file name in the run directory.
pub const SOCKET: &str = "agent.sock";

/// The highest version that this build speaks.
pub const VERSION: u32 = 1;

/// The longest line either side reads, in bytes. A pod is at most 1.5 MiB in etcd and far less once slimmed.
pub const MAX_LINE: usize = 2 * 1024 * 1024;

/// A request of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The highest version that the plugin speaks.
    pub version: u32,
    /// The request proper.
    #[serde(flatten)]
    pub kind: RequestKind,
}

/// The kinds of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestKind {
    /// The facts of a pod that is being added.
    Pod(PodKey),
    /// A pod's sandbox was deleted. Best effort; answered with [`Response::Noted`].
    Deleted(PodKey),
}

/// Identity of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `K8S_POD_UID`; empty if the runtime did not say.
    #[serde(default)]
    pub uid: String,
    /// The sandbox' container id.
    #[serde(default)]
    pub container_id: String,
    /// Name of the network that the runtime adds it to; empty of other commands, and of plugins that do not send it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network: String,
}

/// A reply of the agent. Deserialized by hand (`reply`): the derived way reads a pod twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reply {
    /// The version that the response is written in.
    pub version: u32,
    /// The answer.
    #[serde(flatten)]
    pub response: Response,
}

impl Reply {
    /// The reply to `request`, in the newest version that both sides speak.
    #[must_use]
    pub fn to(request: &Request, response: Response) -> Self {
        Self { version: VERSION.min(request.version), response }
    }
}

/// The kinds of response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// The pod, with a UID that matches the request's.
    Found {
        /// Facts of the pod.
        pod: Box<PodFacts>,
    },
    /// The agent does not know the pod (yet): ask the API server.
    Unknown,
    /// Noted.
    Noted,
    /// The agent can not read the request; or, as we read it, a response that we do not know.
    Unsupported,
}

/// Unusable line of the peer. A plugin treats each as "no agent".
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Longer than [`MAX_LINE`].
    #[error("accept a line of {0} bytes, the limit is {MAX_LINE}")]
    TooLong(usize),
    /// EOF before the end of the line.
    #[error("accept a line without an end")]
    Unfinished,
    /// Malformed message.
    #[error("decode the message")]
    Json(#[from] serde_json::Error),
}

/// Writes a [`Request`] or [`Reply`] as one line, with its `\n`.
///
/// # Errors
/// [`LineError::TooLong`]: the other side would not read it.
pub fn encode_line<T: Serialize>(message: &T) -> Result<Vec<u8>, LineError> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    if line.len() > MAX_LINE { Err(LineError::TooLong(line.len())) } else { Ok(line) }
}

/// The line of the reply to `request` that tells of a pod whose facts are JSON already: what [`encode_line`] makes of
/// [`Response::Found`].
#[must_use]
pub fn found_line(request: &Request, facts: &str) -> Vec<u8> {
    let version = VERSION.min(request.version);
    format!("{{\"version\":{version},\"response\":\"found\",\"pod\":{facts}}}\n").into_bytes()
}

/// Reads a [`Request`] or [`Reply`] from one line, ended by `\n`.
///
/// # Errors
/// See [`LineError`].
pub fn decode_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    if line.len() > MAX_LINE {
        return Err(LineError::TooLong(line.len()));
    }
    let text = line.strip_suffix(b"\n").ok_or(LineError::Unfinished)?;
    Ok(serde_json::from_slice(text)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::Metadata;

    fn line(value: &serde_json::Value) -> Vec<u8> {
        format!("{value}\n").into_bytes()
    }

    fn response(value: &serde_json::Value) -> Response {
        decode_line::<Reply>(&line(value)).unwrap().response
    }

    fn key() -> PodKey {
        PodKey {
            namespace: "shop".to_owned(),
            name: "cart".to_owned(),
            uid: "u-1".to_owned(),
            container_id: "c-1".to_owned(),
            network: String::new(),
        }
    }

    #[test]
    fn requests_have_this_shape_on_the_wire() {
        let request = Request { version: 1, kind: RequestKind::Pod(key()) };
        let text = encode_line(&request).unwrap();
        assert_eq!(
            String::from_utf8(text.clone()).unwrap(),
            "{\"version\":1,\"kind\":\"pod\",\"namespace\":\"shop\",\"name\":\"cart\",\"uid\":\"u-1\",\"container_id\":\"c-1\"}\n"
        );
        assert_eq!(decode_line::<Request>(&text).unwrap(), request);
        let added = PodKey { network: "k8s-pod-network".to_owned(), ..key() };
        let request = Request { version: 1, kind: RequestKind::Pod(added) };
        let text = encode_line(&request).unwrap();
        let told = String::from_utf8(text.clone()).unwrap();
        assert!(told.ends_with("\"container_id\":\"c-1\",\"network\":\"k8s-pod-network\"}\n"), "{told}");
        assert_eq!(decode_line::<Request>(&text).unwrap(), request);
        let request = Request { version: 1, kind: RequestKind::Deleted(key()) };
        assert_eq!(decode_line::<Request>(&encode_line(&request).unwrap()).unwrap(), request);
    }

    #[test]
    fn every_response_survives_the_wire() {
        let pod = PodFacts {
            metadata: Metadata { name: "cart".to_owned(), ..Metadata::default() },
            ..PodFacts::default()
        };
        for response in [
            Response::Found { pod: Box::new(pod) },
            Response::Unknown,
            Response::Noted,
            Response::Unsupported,
        ] {
            let reply = Reply { version: 1, response };
            assert_eq!(decode_line::<Reply>(&encode_line(&reply).unwrap()).unwrap(), reply);
        }
        let text = encode_line(&Reply { version: 1, response: Response::Unknown }).unwrap();
        assert_eq!(text, b"{\"version\":1,\"response\":\"unknown\"}\n");
    }

    #[test]
    fn old_agent_reads_what_a_newer_plugin_adds_and_answers_in_its_own_version() {
        let newer = line(&json!({
            "version": 7, "kind": "pod", "namespace": "n", "name": "p", "netns": "/x", "hints": {"a": [1]}
        }));
        let request: Request = decode_line(&newer).unwrap();
        assert_eq!(
            request.kind,
            RequestKind::Pod(PodKey { namespace: "n".to_owned(), name: "p".to_owned(), ..PodKey::default() })
        );
        assert_eq!(Reply::to(&request, Response::Unknown).version, VERSION);
    }

    #[test]
    fn new_agent_answers_an_older_plugin_in_the_plugins_version() {
        let request = Request { version: 0, kind: RequestKind::Deleted(key()) };
        assert_eq!(Reply::to(&request, Response::Noted), Reply { version: 0, response: Response::Noted });
    }

    #[test]
    fn an_unknown_kind_can_not_be_read_which_the_agent_answers_with_unsupported() {
        let newer = line(&json!({"version": 2, "kind": "explain", "pod": {"namespace": "n"}}));
        assert!(matches!(decode_line::<Request>(&newer), Err(LineError::Json(_))));
    }

    #[test]
    fn plugin_reads_unknown_responses_and_fields_of_a_newer_agent() {
        assert_eq!(
            response(&json!({"version": 1, "response": "wait", "until": [{"x": 1}]})),
            Response::Unsupported
        );
        assert_eq!(response(&json!({"version": 1, "response": "noted", "took_ms": 3})), Response::Noted);
        let found =
            json!({"version": 1, "response": "found", "age": 1, "pod": {"kind": "Pod", "spec": {"x": []}}});
        assert_eq!(response(&found), Response::Found { pod: Box::default() });
        let other_pod = json!({"version": 1, "pod": ["by", "reference"], "response": "refer"});
        assert_eq!(response(&other_pod), Response::Unsupported);
    }

    #[test]
    fn the_keys_of_a_response_may_come_in_any_order() {
        let pod = "\"pod\":{\"metadata\":{\"name\":\"cart\"}}";
        let (version, kind) = ("\"version\":1", "\"response\":\"found\"");
        for keys in [[version, kind, pod], [pod, kind, version], [kind, pod, version], [pod, version, kind]] {
            let line = format!("{{{}}}\n", keys.join(","));
            let reply: Reply = decode_line(line.as_bytes()).unwrap();
            let Response::Found { pod } = reply.response else { panic!("{line}") };
            assert_eq!(pod.metadata.name, "cart", "{line}");
        }
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for text in [
            "",
            "\n",
            "{}\n",
            "null\n",
            "7\n",
            "\0not JSON\n",
            "{\"version\":1,\"response\":\"found\"}\n",
            "{\"response\":\"noted\"}\n",
            "{\"version\":-1,\"response\":\"noted\"}\n",
            "{\"version\":1}\n",
            "{\"version\":1,\"response\":7}\n",
            "{\"version\":1,\"response\":\"found\",\"pod\":null}\n",
            "{\"version\":1,\"response\":\"found\",\"pod\":[1]}\n",
            "{\"version\":1,\"pod\":[1],\"response\":\"found\"}\n",
            "{\"version\":1,\"response\":\"found\",\"pod\":{},\"pod\":{}}\n",
            "{\"version\":1,\"response\":\"noted\",\"response\":\"noted\"}\n",
            "{\"version\":1,\"version\":1,\"response\":\"noted\"}\n",
        ] {
            assert!(decode_line::<Reply>(text.as_bytes()).is_err(), "{text:?}");
        }
        let cut = b"{\"version\":1,\"response\":\"noted\"}";
        assert!(matches!(decode_line::<Reply>(cut), Err(LineError::Unfinished)));
    }

    #[test]
    fn the_limit_counts_the_end_of_line() {
        let request = |len| Request {
            version: 1,
            kind: RequestKind::Pod(PodKey { name: "x".repeat(len), ..PodKey::default() }),
        };
        let around = encode_line(&request(0)).unwrap().len();
        let longest = encode_line(&request(MAX_LINE - around)).unwrap();
        assert_eq!(longest.len(), MAX_LINE);
        assert!(decode_line::<Request>(&longest).is_ok());
        assert!(
            matches!(encode_line(&request(MAX_LINE - around + 1)), Err(LineError::TooLong(n)) if n == MAX_LINE + 1)
        );
        assert!(matches!(decode_line::<Request>(&vec![b' '; MAX_LINE + 1]), Err(LineError::TooLong(_))));
    }
}
