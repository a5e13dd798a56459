// SPDX-License-Identifier: Apache-2.0
//! The agent's settings, under the names that the agent reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::make::{CONFIG_MAP, Maker, or};
use crate::layers::get;
use crate::setting::{Kind, Rendered};
use crate::table;
use crate::values::Values;

/// `ConfigMap` that the agent watches.
pub(super) fn config_map(make: &Maker<'_>) -> Value {
    let mut data = settings(make.values);
    data.extend(make.values.env.clone());
    make.local(CONFIG_MAP, "istio-cni-config", json!({ "data": data }))
}

/// The table says which value a key is written from; what follows from several values is written here.
pub(super) fn settings(values: &Values) -> BTreeMap<String, String> {
    let mut data: BTreeMap<String, String> = table::values()
        .filter(|setting| setting.rendered != Rendered::No)
        .filter_map(|setting| {
            let text = text(setting.kind, get(&values.all, setting.path)?);
            let counts = setting.rendered == Rendered::Always || !text.is_empty();
            counts.then(|| (setting.variable(), text))
        })
        .collect();
    let mut set = |key: &str, value: String| drop(data.insert(key.to_owned(), value));
    set("CURRENT_AGENT_VERSION", or(&or(&values.tag, &values.global.tag), env!("CARGO_PKG_VERSION")));
    let level = or(&values.logging.level, &values.global.logging.level);
    set(
        "LOG_OUTPUT_LEVEL",
        match values.logging.plugin_level.as_str() {
            "" => level,
            of_plugin => format!("{level},cni-plugin:{of_plugin}"),
        },
    );
    if values.istio_owned_cni_config && !values.istio_owned_cni_config_file_name.is_empty() {
        set("ISTIO_OWNED_CNI_CONFIG_FILENAME", values.istio_owned_cni_config_file_name.clone());
    }
    data
}

/// A value as the agent reads it.
fn text(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::String(text)) => text.clone(),
        (Kind::Texts, Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        }
        (_, value) => value.to_string(),
    }
}
