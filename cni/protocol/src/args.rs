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
                return Err(invalid(&format!("ARGS: invalid pair {pair:?}")));
            };
            match key {
                "IgnoreUnknown" => {
                    ignore_unknown = boolean(value).ok_or_else(|| {
                        invalid(&format!("ARGS: error parsing value of pair {pair:?}: not a boolean"))
                    })?;
                }
                "K8S_POD_NAME" => args.pod_name = value.to_owned(),
                "K8S_POD_NAMESPACE" => args.pod_namespace = value.to_owned(),
                "K8S_POD_UID" => args.pod_uid = value.to_owned(),
                "K8S_POD_INFRA_CONTAINER_ID" => {}
                _ => unknown.push(pair),
            }
        }
        if unknown.is_empty() || ignore_unknown {
            Ok(args)
        } else {
            Err(invalid(&format!("ARGS: unknown args {unknown:?}")))
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

fn invalid(fragment: &str) -> CniError {
    CniError::new(Code::INVALID_ENVIRONMENT, format!("failed to load args: {fragment}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelets_args_name_the_pod() {
        let text = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart;K8S_POD_INFRA_CONTAINER_ID=i;K8S_POD_UID=u";
        let want = CniArgs {
            pod_name: "cart".to_owned(),
            pod_namespace: "shop".to_owned(),
            pod_uid: "u".to_owned(),
        };
        assert_eq!(CniArgs::parse(text), Ok(want));
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_empty_values_are_values() {
        assert_eq!(CniArgs::parse("K8S_POD_NAME=a;K8S_POD_NAME=b").unwrap().pod_name, "b");
        assert_eq!(CniArgs::parse("K8S_POD_NAME=a;K8S_POD_NAME="), Ok(CniArgs::default()));
        assert_eq!(CniArgs::parse(""), Ok(CniArgs::default()));
    }

    #[test]
    fn unknown_keys_need_ignore_unknown_before_or_after() {
        for fine in
            ["IgnoreUnknown=1;A=B", "A=B;IgnoreUnknown=TRUE", "IgnoreUnknown=true;=", "IgnoreUnknown=0"]
        {
            assert_eq!(CniArgs::parse(fine), Ok(CniArgs::default()), "{fine}");
        }
        for unknown in
            ["A=B", "IgnoreUnknown=False;A=B", "IgnoreUnknown=1;IgnoreUnknown=0;A=B", "k8s_pod_name=x"]
        {
            let error = CniArgs::parse(unknown).unwrap_err();
            assert!(error.msg.starts_with("failed to load args: ARGS: unknown args ["), "{error}");
        }
    }

    #[test]
    fn an_element_is_one_key_and_one_value() {
        for bad in ["K8S_POD_NAME", "K8S_POD_NAME=a=b", ";", "K8S_POD_NAME=p;", "IgnoreUnknown=1;x"] {
            let error = CniArgs::parse(bad).unwrap_err();
            assert_eq!(error.code, Code::INVALID_ENVIRONMENT);
            assert!(error.msg.contains("ARGS: invalid pair"), "{error}");
        }
        assert!(CniArgs::parse("IgnoreUnknown=yes").unwrap_err().msg.contains("not a boolean"));
    }
}
