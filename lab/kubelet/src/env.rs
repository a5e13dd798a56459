// SPDX-License-Identifier: Apache-2.0
//! Sources of a container's environment: literals, fields of its pod, whole ConfigMaps.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar};

/// Sources of a container's environment.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// ConfigMaps, in order; true for optional ones.
    pub(crate) maps: Vec<(String, bool)>,
    /// Variables, in order; later ones win.
    pub(crate) variables: Vec<EnvVar>,
}

impl Sources {
    #[must_use]
    pub fn of(container: &Container) -> Self {
        let map = |source: &EnvFromSource| {
            let map = source.config_map_ref.as_ref()?;
            Some((map.name.clone(), map.optional == Some(true)))
        };
        Self {
            maps: container.env_from.iter().flatten().filter_map(map).collect(),
            variables: container.env.clone().unwrap_or_default(),
        }
    }
}
