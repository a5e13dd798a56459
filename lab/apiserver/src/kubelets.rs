// SPDX-License-Identifier: Apache-2.0
//! Logs and exec: what an API server asks kubelets for. A request is checked against the pod's object here, in the real server's words;
//! who runs the containers implements [`Kubelets`].

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::ApiError;
use crate::route::{Query, number};
use crate::store::Key;

/// The kubelets of a cluster.
pub trait Kubelets: Send + Sync {
    /// Output of a container, and its end unless more is to be followed.
    fn logs(&self, wanted: LogRequest)
    -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, KubeletError>>;

    /// Starts a program in a container.
    fn exec(&self, wanted: ExecRequest) -> BoxFuture<'static, Result<Exec, KubeletError>>;
}

/// The kubelet's refusal, in its words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeletError(pub String);

/// A container of a pod that is on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRef {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
}

/// Parameters of `pods/log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    pub of: ContainerRef,
    /// Until the container ends.
    pub follow: bool,
    /// Of the container's former process.
    pub previous: bool,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// Only so many lines of those that are there, the last ones.
    pub tail: Option<usize>,
    /// At most so many bytes.
    pub limit: Option<usize>,
}

/// Parameters of `pods/exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    pub of: ContainerRef,
    pub command: Vec<String>,
    /// The streams that the client wants.
    pub streams: Streams,
}

/// Streams of an exec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "PodExecOptions has them")]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// A running program. It does not end with this value: its input does, and whoever reads its output.
pub struct Exec {
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Its exit code.
    pub exit: BoxFuture<'static, i32>,
}

impl LogRequest {
    /// Of a request on a pod; `None` of a pod without a node, whose log is empty.
    pub(crate) fn of(
        key: &Key,
        pod: &Value,
        query: &Query,
        now: Timestamp,
    ) -> Result<Option<Self>, ApiError> {
        let container = container(key, pod, query.get("container"), "a container name must be specified")?;
        let Some(of) = located(key, pod, container) else { return Ok(None) };
        let size = |name: &str| Ok(number(query, name)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
        let since = match (number(query, "sinceSeconds")?, query.get("sinceTime")) {
            (Some(_), Some(_)) => {
                let why = "at most one of sinceTime or sinceSeconds may be specified".to_owned();
                return Err(ApiError::BadRequest(why));
            }
            (Some(seconds), None) => {
                let before = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                Some(now.checked_sub(before).unwrap_or(Timestamp::MIN))
            }
            (None, Some(time)) => {
                let bad = |_| ApiError::BadRequest(format!("sinceTime is not a time: {time}"));
                Some(time.parse().map_err(bad)?)
            }
            (None, None) => None,
        };
        Ok(Some(Self {
            of,
            follow: query.is_true("follow"),
            previous: query.is_true("previous"),
            timestamps: query.is_true("timestamps"),
            since,
            tail: size("tailLines")?,
            limit: size("limitBytes")?,
        }))
    }
}

impl ExecRequest {
    /// Of a request on a pod.
    pub(crate) fn of(key: &Key, pod: &Value, query: &Query) -> Result<Self, ApiError> {
        let bad = |why: String| ApiError::BadRequest(why);
        let streams = Streams {
            stdin: query.is_true("stdin"),
            stdout: query.is_true("stdout"),
            stderr: query.is_true("stderr"),
            tty: query.is_true("tty"),
        };
        let command: Vec<String> = query.all("command").map(str::to_owned).collect();
        if command.is_empty() {
            return Err(bad("you must specify at least 1 command for the container".to_owned()));
        }
        if !(streams.stdin || streams.stdout || streams.stderr) {
            return Err(bad("you must specify at least 1 of stdin, stdout, stderr".to_owned()));
        }
        let container = container(key, pod, query.get("container"), "a container name must be specified")?;
        let of = located(key, pod, container)
            .ok_or_else(|| bad(format!("pod {} does not have a host assigned", key.name)))?;
        Ok(Self { of, command, streams })
    }
}

fn located(key: &Key, pod: &Value, container: String) -> Option<ContainerRef> {
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
    Some(ContainerRef {
        node: node.to_owned(),
        namespace: key.namespace.clone(),
        pod: key.name.clone(),
        uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        container,
    })
}

/// The container that is meant: the only one, if none is named.
fn container(key: &Key, pod: &Value, named: Option<&str>, unnamed: &str) -> Result<String, ApiError> {
    let names = |field: &str| -> Vec<&str> {
        pod["spec"][field].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    let ephemeral = names("ephemeralContainers");
    let name = &key.name;
    let why = match (named, main.as_slice()) {
        (Some(named), _) if [&main, &init, &ephemeral].iter().any(|names| names.contains(&named)) => {
            return Ok(named.to_owned());
        }
        (Some(named), _) => format!("container {named} is not valid for pod {name}"),
        (None, [only]) => return Ok((*only).to_owned()),
        (None, _) => {
            let inits = if init.is_empty() {
                String::new()
            } else {
                format!(" or one of the init containers: [{}]", init.join(" "))
            };
            format!("{unnamed} for pod {name}, choose one of: [{}]{inits}", main.join(" "))
        }
    };
    Err(ApiError::BadRequest(why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Kind;

    fn key() -> Key {
        let kind = Kind::find("", "v1", "pods").unwrap();
        Key { kind, namespace: "shop".to_owned(), name: "cart".to_owned() }
    }

    fn pod(containers: &[&str], init: &[&str]) -> Value {
        let named = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        json!({
            "metadata": { "uid": "u" },
            "spec": { "nodeName": "node-1", "containers": named(containers), "initContainers": named(init) },
        })
    }

    fn query(text: &str) -> Query {
        Query::of(&format!("/?{text}").parse().unwrap())
    }

    fn log(pod: &Value, text: &str) -> Result<Option<LogRequest>, String> {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        LogRequest::of(&key(), pod, &query(text), now).map_err(|error| error.to_string())
    }

    #[test]
    fn a_container_must_be_named_unless_there_is_one_only() {
        assert_eq!(log(&pod(&["app"], &[]), "").unwrap().unwrap().of.container, "app");
        let two = pod(&["app", "proxy"], &["init"]);
        assert_eq!(log(&two, "container=init").unwrap().unwrap().of.container, "init");
        assert_eq!(
            log(&two, "").unwrap_err(),
            "a container name must be specified for pod cart, choose one of: [app proxy] or one of the init containers: [init]"
        );
        assert_eq!(log(&two, "container=x").unwrap_err(), "container x is not valid for pod cart");
    }

    #[test]
    fn a_pod_without_a_node_has_an_empty_log_and_runs_nothing() {
        let mut unplaced = pod(&["app"], &[]);
        unplaced["spec"]["nodeName"] = Value::Null;
        assert_eq!(log(&unplaced, ""), Ok(None));
        let refused = ExecRequest::of(&key(), &unplaced, &query("command=ls&stdout=true")).unwrap_err();
        assert_eq!(refused.to_string(), "pod cart does not have a host assigned");
    }

    #[test]
    fn parameters_of_a_log() {
        let read = log(&pod(&["app"], &[]), "sinceSeconds=5&tailLines=3&timestamps=true&previous=true")
            .unwrap()
            .unwrap();
        assert_eq!(read.since, Some("2026-01-02T03:04:00Z".parse().unwrap()));
        assert_eq!((read.tail, read.timestamps, read.previous, read.follow), (Some(3), true, true, false));
        let both = log(&pod(&["app"], &[]), "sinceSeconds=5&sinceTime=2026-01-02T03:04:05Z").unwrap_err();
        assert_eq!(both, "at most one of sinceTime or sinceSeconds may be specified");
    }

    #[test]
    fn words_of_a_command_keep_their_order() {
        let text = "command=sh&command=-c&command=echo+hi&stdin=true&stdout=true&stderr=true";
        let read = ExecRequest::of(&key(), &pod(&["app"], &[]), &query(text)).unwrap();
        assert_eq!(read.command, ["sh", "-c", "echo hi"]);
        assert_eq!(read.streams, Streams { stdin: true, stdout: true, stderr: true, tty: false });
        assert!(ExecRequest::of(&key(), &pod(&["app"], &[]), &query("stdout=true")).is_err());
        assert!(ExecRequest::of(&key(), &pod(&["app"], &[]), &query("command=ls")).is_err());
    }
}
