// SPDX-License-Identifier: Apache-2.0
//! Answers as `meta.k8s.io/v1` tables: what `kubectl get` asks for, and prints as it comes. Pure.
//!
//! | module | cells of |
//! |---|---|
//! | `columns` | all kinds: which columns there are, and in which table |
//! | `pod` | pods |
//! | `workloads` | what has pods, nodes |
//! | `age` | durations |
//!
//! From `pkg/printers/internalversion/printers.go` of Kubernetes 1.34, and `apimachinery/pkg/util/duration`.

mod age;
mod columns;
mod pod;
mod workloads;

use http::HeaderMap;
use http::header::ACCEPT;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::route::Query;

/// Object of a row beside its cells (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Metadata,
    Object,
    None,
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    /// `PartialObjectMetadata`, of a list or a watch as well.
    Metadata,
    Table(Include),
}

impl Form {
    /// The first form that a client accepts and that there is.
    pub(crate) fn of(headers: &HeaderMap, query: &Query) -> Self {
        let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        for range in accepted.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parts: Vec<&str> = parts.collect();
            let is_plain = !parts.iter().any(|part| part.starts_with("as="));
            if is_plain && ["application/json", "application/*", "*/*"].contains(&media) {
                return Self::Object;
            }
            let metadata = ["as=PartialObjectMetadata", "as=PartialObjectMetadataList"];
            if media == "application/json"
                && ["v=v1", "g=meta.k8s.io"].iter().all(|wanted| parts.contains(wanted))
                && metadata.iter().any(|wanted| parts.contains(wanted))
            {
                return Self::Metadata;
            }
            if media == "application/json"
                && ["as=Table", "v=v1", "g=meta.k8s.io"].iter().all(|wanted| parts.contains(wanted))
            {
                return Self::Table(match query.get("includeObject") {
                    Some("Object") => Include::Object,
                    Some("None") => Include::None,
                    _ => Include::Metadata,
                });
            }
        }
        Self::Object
    }
}

/// A table of objects of a kind. Only the first event of a watch has the columns.
pub(crate) fn table<'a>(
    kind: &Kind,
    objects: impl IntoIterator<Item = &'a Value>,
    metadata: &Value,
    include: Include,
    now: Timestamp,
    with_columns: bool,
) -> Value {
    let printer = columns::printer(kind);
    let definition = |column: &columns::Column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": "", "priority": column.priority,
        })
    };
    let definitions: Option<Vec<Value>> =
        with_columns.then(|| printer.columns.iter().map(definition).collect());
    let row =
        |object: &Value| json!({ "cells": (printer.cells)(object, now), "object": beside(object, include) });
    let rows: Vec<Value> = objects.into_iter().map(row).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn beside(object: &Value, include: Include) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Object => object.clone(),
        Include::Metadata => metadata_of(object),
    }
}

/// The metadata of an object alone.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str, query: &str) -> Form {
        let headers = [(ACCEPT, accept.parse().unwrap())].into_iter().collect();
        Form::of(&headers, &Query::of(&format!("/?{query}").parse().unwrap()))
    }

    #[test]
    fn the_first_form_that_there_is_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl, ""), Form::Table(Include::Metadata));
        assert_eq!(form(kubectl, "includeObject=Object"), Form::Table(Include::Object));
        assert_eq!(form("application/json", ""), Form::Object);
        assert_eq!(form("application/json, application/json;as=Table;v=v1;g=meta.k8s.io", ""), Form::Object);
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json", ""), Form::Object);
        assert_eq!(form("*/*", ""), Form::Object);
        let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        assert_eq!(form(partial, ""), Form::Metadata);
    }

    #[test]
    fn a_row_has_as_many_cells_as_there_are_columns() {
        let now = Timestamp::UNIX_EPOCH;
        for kind in &crate::kinds::KINDS {
            let made = table(kind, [&json!({})], &json!({}), Include::None, now, true);
            let columns = made["columnDefinitions"].as_array().unwrap();
            assert_eq!(made["rows"][0]["cells"].as_array().unwrap().len(), columns.len(), "{}", kind.plural);
            assert!(["Name", "Last Seen"].contains(&columns[0]["name"].as_str().unwrap()));
        }
    }
}
