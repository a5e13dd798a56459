// SPDX-License-Identifier: Apache-2.0
//! `CNI_ARGS`: what the kubelet's runtime tells of the pod.

use crate::error::{CniError, Code};

/// The pod, as the runtime names it. Each is empty if not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CniArgs {
    /// `K8S_POD_NAME`
    pub pod_name: String,
    /// `K8S_POD_NAMESPACE`
    pub pod_namespace: String,
    /// `K8S_POD_UID`
    pub pod_uid: String,
    /// `K8S_POD_INFRA_CONTAINER_ID`
    pub infra_container_id: String,
}

impl CniArgs {
    /// Parses `K=V;K=V`. The last of equal keys counts. Unknown keys are errors unless `IgnoreUnknown` is true, wherever
    /// in the list that stands.
    ///
    /// # Errors
    /// With [`Code::INVALID_ENVIRONMENT`]: an element without exactly one `=`, an unknown key, or an `IgnoreUnknown` that
    /// is not a boolean.
    pub fn parse(text: &str) -> Result<Self, CniError> {
        let mut args = Self::default();
        if text.is_empty() {
            return Ok(args);
        }
        let (mut unknown, mut ignore_unknown) = (Vec::new(), false);
        for pair in text.split(';') {
            let Some((key, value)) = pair.split_once('=').filter(|(_, value)| !value.contains('=')) else {
                return Err(invalid(format!("ARGS: invalid pair {pair:?}")));
            };
            match key {
                "IgnoreUnknown" => {
                    ignore_unknown = boolean(value).ok_or_else(|| {
                        invalid(format!("ARGS: error parsing value of pair {pair:?}: not a boolean"))
                    })?;
                }
                "K8S_POD_NAME" => args.pod_name = value.to_owned(),
                "K8S_POD_NAMESPACE" => args.pod_namespace = value.to_owned(),
                "K8S_POD_UID" => args.pod_uid = value.to_owned(),
                "K8S_POD_INFRA_CONTAINER_ID" => args.infra_container_id = value.to_owned(),
                _ => unknown.push(pair),
            }
        }
        if unknown.is_empty() || ignore_unknown {
            Ok(args)
        } else {
            Err(invalid(format!("ARGS: unknown args {unknown:?}")))
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

fn invalid(fragment: String) -> CniError {
    CniError::new(Code::INVALID_ENVIRONMENT, format!("failed to load args: {fragment}"))
}
