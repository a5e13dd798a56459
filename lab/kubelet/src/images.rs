// SPDX-License-Identifier: Apache-2.0
//! Images that a node has. Nothing is ever pulled: what a container runs follows from its command.

/// Images of a node, by the last part of their names.
#[derive(Debug, Clone, Default)]
pub enum Images {
    /// Whatever a pod names is there.
    #[default]
    Any,
    /// These; others cannot be pulled.
    Only(Vec<&'static str>),
}

impl Images {
    /// Error of an image that cannot be pulled, in containerd's words as far as they fit.
    #[must_use]
    pub fn refusal(&self, image: &str) -> Option<String> {
        let Self::Only(known) = self else { return None };
        let name = image.rsplit('/').next().unwrap_or_default();
        let name = name.split(['@', ':']).next().unwrap_or_default();
        (!known.contains(&name)).then(|| {
            format!(
                "Failed to pull image {image:?}: failed to resolve reference: nothing is pulled in this lab; it has the images {}",
                known.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_the_last_part_of_its_name() {
        let images = Images::Only(vec!["workload", "install-cni"]);
        for known in ["workload", "cnilab/workload", "registry.example:5000/mesh/install-cni:1.2@sha256:0"] {
            assert_eq!(images.refusal(known), None, "{known}");
            assert_eq!(Images::Any.refusal("nginx"), None);
        }
        for unknown in ["nginx", "", "workload/nginx:1"] {
            assert!(images.refusal(unknown).unwrap().ends_with("workload, install-cni"), "{unknown}");
        }
    }
}
