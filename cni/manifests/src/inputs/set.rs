// SPDX-License-Identifier: Apache-2.0
//! `--set a.b=c,d=e`, as Helm has it: `\` keeps the next letter as it is, `{a,b}` is a list, and what reads as a number, as true, false
//! or null is one.

use serde_json::Value;

use crate::mistake::{Given, Mistake, Mistakes};

/// Puts what a word says over values.
///
/// # Errors
/// What is no assignment.
pub fn apply(values: &mut Value, word: &str) -> Result<(), Mistakes> {
    for part in split(word, ',') {
        let bad = || {
            let given = Given::new("--set", part.clone());
            Mistakes::from(Mistake::Wrong { given, wanted: "KEY=VALUE, KEY without [ and ]".to_owned() })
        };
        let (key, value) = part.split_once('=').ok_or_else(bad)?;
        let keys: Vec<String> = split(key, '.').iter().map(|key| plain(key)).collect();
        if keys.iter().any(|key| key.is_empty() || key.contains(['[', ']'])) {
            return Err(bad());
        }
        assign(values, &keys, read(value));
    }
    Ok(())
}

fn assign(values: &mut Value, keys: &[String], value: Value) {
    match keys {
        [] => *values = value,
        [key, rest @ ..] => {
            if !values.is_object() {
                *values = Value::Object(serde_json::Map::new());
            }
            assign(&mut values[key.as_str()], rest, value);
        }
    }
}

fn read(text: &str) -> Value {
    if let Some(list) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        return split(list, ',').iter().filter(|item| !item.is_empty()).map(|item| read(item)).collect();
    }
    let text = plain(text);
    match text.as_str() {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        // A leading 0 is a mode, not a number.
        _ if text.starts_with('0') && text.len() > 1 => text.into(),
        _ => text.parse::<i64>().map_or_else(|_| text.clone().into(), Value::from),
    }
}

/// Splits where the letter stands by itself, outside of braces; `\` stays for [`plain`].
fn split(text: &str, at: char) -> Vec<String> {
    let (mut parts, mut depth, mut escaped) = (vec![String::new()], 0_usize, false);
    for letter in text.chars() {
        let ends = letter == at && depth == 0 && !escaped;
        match letter {
            '{' if !escaped => depth += 1,
            '}' if !escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        match parts.last_mut() {
            Some(part) if !ends => part.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts
}

fn plain(text: &str) -> String {
    let mut letters = text.chars();
    let mut out = String::new();
    while let Some(letter) = letters.next() {
        out.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_read_as_helm_reads_them() {
        for (word, want) in [
            ("chained=false", json!({"chained": false})),
            ("a.b=1,a.c=x", json!({"a": {"b": 1, "c": "x"}})),
            ("excludeNamespaces={a,b}", json!({"excludeNamespaces": ["a", "b"]})),
            ("l={}", json!({"l": []})),
            (r"podLabels.app\.kubernetes\.io/x=a\,b", json!({"podLabels": {"app.kubernetes.io/x": "a,b"}})),
            ("kubeconfigMode=0640", json!({"kubeconfigMode": "0640"})),
            ("x=", json!({"x": ""})),
            ("x=null", json!({"x": null})),
            ("x=a=b", json!({"x": "a=b"})),
        ] {
            let mut values = json!({});
            apply(&mut values, word).unwrap();
            assert_eq!(values, want, "{word}");
        }
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        for word in ["chained", "=x", "a..b=1", "a[0]=1", ""] {
            let told = apply(&mut json!({}), word).unwrap_err().to_string();
            assert!(told.starts_with("--set: ") && told.contains("KEY=VALUE"), "{word}: {told}");
        }
    }
}
