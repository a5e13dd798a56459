// SPDX-License-Identifier: Apache-2.0
//! Messages between the plugin and the node agent, over the Unix stream socket [`SOCKET`] in the run directory.
//!
//! One request and one response per connection, each one line of JSON ended by `\n`. Either side ignores fields that it
//! does not know. Versions: a request carries the highest version its sender speaks; the response carries the version it
//! is written in, never higher than the request's. An agent that does not know a request's kind answers
//! [`Response::Unsupported`], and a plugin treats that, or a line that it cannot read, as "no agent": it asks the API
//! server. So a new plugin works with an old agent and the reverse.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::pod::PodFacts;

/// The socket's file name in the run directory.
pub const SOCKET: &str = "agent.sock";

/// The highest version that this build speaks.
pub const VERSION: u32 = 1;

/// The longest line either side reads, in bytes. A pod is at most 1.5 MiB in etcd and far less once slimmed.
pub const MAX_LINE: usize = 2 * 1024 * 1024;

/// What the plugin asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The highest version that the plugin speaks.
    pub version: u32,
    /// The question.
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

/// Which pod.
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
}

/// What the agent answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The version that the response is written in.
    pub version: u32,
    /// The answer.
    #[serde(flatten)]
    pub response: Response,
}

/// The kinds of response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// The pod, with a UID that matches the request's.
    Found {
        /// What we read of it.
        pod: Box<PodFacts>,
    },
    /// The agent does not know the pod (yet): ask the API server.
    Unknown,
    /// Noted.
    Noted,
    /// The agent does not know this kind of request.
    #[serde(other)]
    Unsupported,
}

/// Why a line of the other side can not be used. A plugin treats each as "no agent".
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// Longer than [`MAX_LINE`].
    #[error("accept a line of {0} bytes, the limit is {MAX_LINE}")]
    TooLong(usize),
    /// No end of line: the other side went away in the middle.
    #[error("accept a line without an end")]
    Unfinished,
    /// Not a message that we know.
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
