// SPDX-License-Identifier: Apache-2.0
//! Components that a cluster of real ones is made of, where there are several of a kind.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Versions of Kubernetes that there are recipes for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Version {
    #[default]
    #[value(name = "1.34")]
    V1_34,
    #[value(name = "1.36")]
    V1_36,
}

/// Runtimes that there are recipes for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum RuntimeName {
    #[default]
    Containerd,
    Crio,
}

/// Networks that there are recipes for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum NetworkName {
    #[default]
    Bridge,
    MultusThin,
    MultusThick,
}

/// One of each kind.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Choice {
    pub version: Version,
    pub runtime: RuntimeName,
    pub network: NetworkName,
}
