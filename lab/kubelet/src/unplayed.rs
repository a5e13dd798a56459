// SPDX-License-Identifier: Apache-2.0
//! Fields of pods that this kubelet does not play, and that would make it friendlier than a real one, or a product look wrong.

use cluster::LabError;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde::Deserialize as _;
use serde_json::Value;

use crate::probe;
use crate::volumes::{Content, sees_no_machine, volumes};

/// Rejects an object whose pods, or which as a pod, would be played in part.
///
/// # Errors
/// A field is not played.
pub fn check(object: &Value) -> Result<(), LabError> {
    let spec = if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
    // An object that is no pod is for the API server to reject.
    let spec = PodSpec::deserialize(spec).ok();
    spec.as_ref().and_then(of_pod).map_or(Ok(()), |what| Err(LabError::unsupported(crate::TIER, what)))
}

/// The first such field.
#[must_use]
pub fn of_pod(spec: &PodSpec) -> Option<String> {
    let containers = || spec.init_containers.iter().flatten().chain(&spec.containers);
    let probes = |container: &Container| {
        let probes = [&container.startup_probe, &container.readiness_probe];
        let kind = probes.into_iter().flatten().find_map(probe::unplayed)?;
        Some(format!("probe container {:?} by {kind}", container.name))
    };
    containers().find_map(probes).or_else(|| {
        let all = volumes(spec);
        let mut mounts =
            containers().filter(|_| sees_no_machine(spec)).flat_map(|one| one.volume_mounts.iter().flatten());
        mounts.find_map(|mount| {
            let volume = all.iter().find(|volume| volume.name == mount.name)?;
            let Content::Other(kind) = &volume.content else { return None };
            Some(format!("mount volume {:?}, a {kind}", volume.name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rejected(spec: &Value) -> Option<String> {
        let direct = check(&json!({ "kind": "Pod", "spec": spec }));
        let by_template = check(&json!({ "kind": "DaemonSet", "spec": { "template": { "spec": spec } } }));
        let told = [direct, by_template].map(|checked| checked.err().map(|error| error.to_string()));
        assert_eq!(told[0], told[1]);
        told.into_iter().next().flatten()
    }

    #[test]
    fn a_pod_that_would_be_played_in_part_names_the_part() {
        let container = |more: Value| {
            let mut one = json!({ "name": "c" });
            one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            one
        };
        let probed = container(json!({ "readinessProbe": { "grpc": { "port": 1 } } }));
        let told = Some(r#"netns cannot probe container "c" by grpc"#.to_owned());
        assert_eq!(rejected(&json!({ "containers": [probed] })), told);
        let mounts = container(json!({ "volumeMounts": [{ "name": "m", "mountPath": "/m" }] }));
        let volume = json!({ "name": "m", "configMap": { "name": "m" } });
        let of_node = json!({ "name": "n", "hostPath": { "path": "/n" } });
        let mut spec = json!({ "containers": [mounts], "volumes": [volume, of_node] });
        assert_eq!(rejected(&spec), Some(r#"netns cannot mount volume "m", a configMap"#.to_owned()));
        spec["containers"][0]["volumeMounts"] = json!([{ "name": "n", "mountPath": "/n" }]);
        assert_eq!(rejected(&spec), None, "nobody sees it");
    }

    #[test]
    fn what_has_no_pods_is_played() {
        check(&json!({ "kind": "ConfigMap", "data": {} })).unwrap();
        check(&json!({ "kind": "Pod", "spec": { "containers": [{ "name": "c" }] } })).unwrap();
    }
}
