// SPDX-License-Identifier: Apache-2.0
//! Programs in containers, as `kubectl exec` runs them.

use std::time::{Duration, Instant};

use cluster::{Bounded, CniAnswer, bounded};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::AttachParams;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::error::Error;

/// The program of a container's first process, for whoever is in its namespaces.
const OWN: &str = "/proc/1/exe";

/// Bytes of a read.
const PIECE: usize = 1 << 14;

/// Runs a program to its end: the container's own, unless `words` begin with an absolute path.
///
/// # Errors
/// It does not start.
pub(crate) async fn run(
    pods: &Api<Pod>,
    pod: &str,
    container: &str,
    words: &[&str],
) -> Result<CniAnswer, Error> {
    let own = words.first().is_none_or(|first| !first.starts_with('/')).then_some(OWN);
    let all = own.into_iter().chain(words.iter().copied());
    let streams = AttachParams::default().container(container).stdin(false).stdout(true).stderr(true);
    let what = format!("run {words:?} in container {container} of pod {pod}");
    let begun = Instant::now();
    let mut process = pods.exec(pod, all, &streams).await.map_err(Error::api(what.clone()))?;
    let (out, err) = (process.stdout(), process.stderr());
    let status = process.take_status();
    let (stdout, stderr) = tokio::join!(whole(out), whole(err));
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    let status = status.ok_or_else(|| Error::Watch { what, why: "nobody says how it ended".to_owned() })?;
    Ok(CniAnswer { exit: code(&status), stdout, stderr, took: begun.elapsed(), waited: Duration::ZERO })
}

async fn whole(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut output = Bounded::new(bounded::OUTPUT);
    if let Some(mut stream) = stream {
        let mut piece = vec![0; PIECE];
        // The status tells of a stream that breaks off.
        while let Ok(read @ 1..) = stream.read(&mut piece).await {
            output.push(&piece[..read]);
        }
    }
    String::from_utf8_lossy(&output.bytes()).into_owned()
}

/// Exit code of a program, as the kubelet tells it (`v4.channel.k8s.io`): none if it did not end by itself.
fn code(status: &Status) -> Option<i32> {
    if status.status.as_deref() == Some("Success") {
        return Some(0);
    }
    let causes = status.details.as_ref()?.causes.iter().flatten();
    let exit = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"))?;
    exit.message.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: Value) -> Option<i32> {
        code(&serde_json::from_value(status).unwrap())
    }

    #[test]
    fn an_exit_code_is_in_the_status_that_ends_the_stream() {
        assert_eq!(of(json!({ "status": "Success" })), Some(0));
        let causes = json!([{ "reason": "ExitCode", "message": "3" }]);
        let failed =
            json!({ "status": "Failure", "reason": "NonZeroExitCode", "details": { "causes": causes } });
        assert_eq!(of(failed), Some(3));
        assert_eq!(of(json!({ "status": "Failure", "reason": "InternalError" })), None);
    }
}
