// SPDX-License-Identifier: Apache-2.0
//! Errors of injection.

/// Injection error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    #[error("find the pod's {0}")]
    NoPod(&'static str),
    #[error("invalid value '{value}' for annotation '{name}'")]
    Annotation { name: String, value: String },
}
