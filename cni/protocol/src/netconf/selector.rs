// SPDX-License-Identifier: Apache-2.0
//! `enablement_selectors`: which pods are ambient. Only that mode uses them; a sidecar node must still read them.

use std::collections::BTreeMap;

use crate::json::{Fields, JsonError, string};

/// A label selector of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// `matchLabels`
    pub match_labels: BTreeMap<String, String>,
    /// `matchExpressions`
    pub match_expressions: Vec<LabelRequirement>,
}

/// One expression of a [`LabelSelector`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRequirement {
    /// `key`
    pub key: String,
    /// `operator`: `In`, `NotIn`, `Exists`, `DoesNotExist`.
    pub operator: String,
    /// `values`
    pub values: Vec<String>,
}

/// Selector of ambient pods; only that mode uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnablementSelector {
    /// `podSelector`
    pub pod: LabelSelector,
    /// `namespaceSelector`
    pub namespace: LabelSelector,
}

pub(super) fn read(mut fields: Fields) -> Result<EnablementSelector, JsonError> {
    Ok(EnablementSelector {
        pod: labels(fields.object("podSelector")?)?,
        namespace: labels(fields.object("namespaceSelector")?)?,
    })
}

fn labels(fields: Option<Fields>) -> Result<LabelSelector, JsonError> {
    let mut fields = fields.unwrap_or_default();
    let matched = fields.object("matchLabels")?.unwrap_or_default().rest();
    let label = |(key, value)| Ok((key, string("matchLabels", value)?));
    Ok(LabelSelector {
        match_labels: matched.into_iter().map(label).collect::<Result<_, JsonError>>()?,
        match_expressions: fields.objects("matchExpressions", requirement)?.unwrap_or_default(),
    })
}

fn requirement(mut fields: Fields) -> Result<LabelRequirement, JsonError> {
    Ok(LabelRequirement {
        key: fields.string("key")?,
        operator: fields.string("operator")?,
        values: fields.strings("values")?.unwrap_or_default(),
    })
}
