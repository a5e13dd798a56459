// SPDX-License-Identifier: Apache-2.0
//! YAML text as JSON values.

use serde_json::Value;

use crate::mistake::{Mistake, Mistakes};

/// Parses the documents of a text, without empty ones; `what` is its name for messages.
///
/// # Errors
/// Malformed YAML.
pub fn read(what: &str, text: &str) -> Result<Vec<Value>, Mistakes> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        Mistakes::from(Mistake::Document { what: what.to_owned(), why: first_line(&error) })
    })?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// First line of a YAML parser's error, without its source snippet.
#[must_use]
pub fn first_line(error: &serde_saphyr::Error) -> String {
    error.to_string().lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_are_read_and_empty_ones_left_out() {
        let text = "a: 1\n---\n# nothing\n---\nb: [x]\n";
        assert_eq!(read("f", text).unwrap(), [json!({"a": 1}), json!({"b": ["x"]})]);
    }

    #[test]
    fn what_is_no_yaml_is_told_in_one_line() {
        let error = read("values.yaml", "a: [1\nb: {").unwrap_err().to_string();
        assert!(error.starts_with("values.yaml: ") && error.lines().count() == 1, "{error}");
    }
}
