// SPDX-License-Identifier: Apache-2.0
//! JSON values as YAML text, in blocks. A text is quoted unless every reader of YAML takes it for a text as it stands.

use std::fmt::Write as _;

use serde_json::Value;

/// Document as text, ended by a newline.
#[must_use]
pub fn write(value: &Value) -> String {
    let mut text = String::new();
    if is_block(value) {
        block(&mut text, value, 0);
    } else {
        text.push_str(&scalar(value));
        text.push('\n');
    }
    text
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

/// Lines at a depth, as `value` says; a first line that follows `- ` is not indented by the caller's text.
fn block(text: &mut String, value: &Value, depth: usize) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(text, "{pad}{}:", plain_or_quoted(key));
                below(text, value, depth);
            }
        }
        Value::Array(list) => {
            for item in list {
                let mut inner = String::new();
                if is_block(item) {
                    block(&mut inner, item, depth + 1);
                } else {
                    inner = format!("{}\n", scalar(item));
                }
                let _ = write!(text, "{pad}- {}", inner.trim_start_matches(' '));
            }
        }
        other => text.push_str(&scalar(other)),
    }
}

fn below(text: &mut String, value: &Value, depth: usize) {
    if is_block(value) {
        text.push('\n');
        block(text, value, if value.is_array() { depth } else { depth + 1 });
    } else {
        let _ = writeln!(text, " {}", scalar(value));
    }
}

/// Value on one line.
#[must_use]
pub fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), plain_or_quoted)
}

fn plain_or_quoted(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

/// Words that some parser takes for another type than a string.
const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan"];

fn is_plain(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"./-_ ".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && !text.ends_with(' ')
        && text.bytes().all(inside)
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn objects_are_blocks() {
        let value = json!({"a": {"b": ["x", {"c": 1, "d": []}], "e": {}}, "f": "0600", "g": [["h"]], "i": "a\nb", "on": true});
        let want = "a:\n  b:\n  - x\n  - c: 1\n    d: []\n  e: {}\nf: \"0600\"\ng:\n- - h\ni: \"a\\nb\"\n\"on\": true\n";
        assert_eq!(write(&value), want);
        assert_eq!(write(&json!("x")), "x\n");
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[a-zA-Z0-9 .:/_#-]{0,8}",
            Just("No".to_owned()),
            Just("1e3".to_owned())
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z.0-9 /]{0,6}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in values()) {
            let text = write(&value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
