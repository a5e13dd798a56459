// SPDX-License-Identifier: Apache-2.0
//! The flags of `install-cni taint`, and how their words are read.

use std::time::Duration;

use clap::Args;

use super::TaintMode;
use crate::settings::kind;

/// The flags.
#[derive(Debug, Clone, Args)]
pub struct TaintFlags {
    /// How taints are minded
    #[arg(long, value_enum)]
    pub(super) mode: TaintMode,
    /// Go on for ever; false: look at every node once, put right what is wrong, and end [env: TAINT_RUN-AS-DAEMON] [default: true]
    #[arg(long, value_name = "BOOL", require_equals = true, num_args = 0..=1, default_missing_value = "true", value_parser = boolean)]
    pub(super) run_as_daemon: Option<bool>,
    /// Key of the taint [default: NodeReadiness, or cni.istio.io/not-ready]
    #[arg(long, value_name = "KEY", value_parser = taint)]
    pub(super) taint_name: Option<String>,
    /// Namespace of the agent's pods (untaint) [default: the own one]
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) cni_namespace: Option<String>,
    /// ConfigMap with lists of {name, namespace, selector} (readiness) [env: TAINT_CONFIGMAP-NAME]
    #[arg(long, value_name = "NAME")]
    pub(super) configmap_name: Option<String>,
    /// Its namespace [env: TAINT_CONFIGMAP-NAMESPACE] [default: the own one]
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) configmap_namespace: Option<String>,
    /// Lease that the leader holds [default: istio-taint-lock, or istio-node-untaint]
    #[arg(long, value_name = "NAME")]
    pub(super) lease_name: Option<String>,
    /// Its namespace [default: the own one]
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) lease_namespace: Option<String>,
    /// After so long without a renewal another one leads
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(super) lease_duration: Duration,
    /// After so long without a renewal the leader stops acting
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    pub(super) lease_renew: Duration,
    /// How often the lease is renewed, or tried for
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub(super) lease_retry: Duration,
}

/// Same syntax as the agent's.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    kind::boolean(text).map_err(|problem| problem.to_string())
}

/// The key of a taint: a label's name, with or without a domain before it.
fn taint(text: &str) -> Result<String, String> {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    let edge = |text: &str| {
        let ends = [text.bytes().next(), text.bytes().next_back()];
        ends.into_iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
    };
    let of = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let named = name.len() <= 63 && edge(name) && of(name, b"-_.");
    let placed = domain.is_none_or(|domain| domain.len() <= 253 && edge(domain) && of(domain, b"-."));
    if named && placed {
        Ok(text.to_owned())
    } else {
        Err("expected the key of a taint, like cni.istio.io/not-ready".to_owned())
    }
}

/// `90s`, `500ms`, `2m`.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: Option<u32> = number.parse().ok();
    match (number.map(u64::from), unit) {
        (Some(number), "ms") => Ok(Duration::from_millis(number)),
        (Some(number), "s") => Ok(Duration::from_secs(number)),
        (Some(number), "m") => Ok(Duration::from_secs(number * 60)),
        _ => Err("expected a time, like 60s, 500ms or 2m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_and_no_time_is_refused() {
        for key in ["", "/x", "a b", "a/b/c", "-x", "x."] {
            assert!(taint(key).is_err(), "{key:?}");
        }
        assert!(taint("cni.istio.io/not-ready").is_ok() && taint("NodeReadiness").is_ok());
        for text in ["", "5", "s", "5h", "-5s"] {
            assert!(time(text).is_err(), "{text:?}");
        }
    }
}
