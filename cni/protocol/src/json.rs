// SPDX-License-Identifier: Apache-2.0
//! JSON as the rest of the CNI world reads it, that is as Go's decoder does: keys match in any case, of a key that is there
//! twice the last counts, `null` is the same as nothing, invalid UTF-8 reads as U+FFFD. serde's derive refuses all of these.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Malformed JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, more than one value, or not an object.
    #[error("parse JSON")]
    Syntax(#[from] serde_json::Error),
    /// Value of the wrong type.
    #[error("read {key:?}: {found} is not {wanted}")]
    Type {
        /// The value's key.
        key: &'static str,
        /// Expected type.
        wanted: &'static str,
        /// Actual type.
        found: &'static str,
    },
}

/// The values of an object by key. Each is taken once; what is left is unknown.
#[derive(Debug, Default)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Parses the object `text`, and keeps what is under the keys `known`; everything else is skipped unread, however deep
    /// it is. `null` is an empty object.
    pub(crate) fn parse(text: &[u8], known: &[&str]) -> Result<Self, JsonError> {
        let text = String::from_utf8_lossy(text);
        let mut decoder = serde_json::Deserializer::from_str(&text);
        let fields = Known(known).deserialize(&mut decoder)?;
        decoder.end()?;
        Ok(fields)
    }

    /// The object `value`; `None` for `null`.
    pub(crate) fn of(key: &'static str, value: Value) -> Result<Option<Self>, JsonError> {
        match value {
            Value::Null => Ok(None),
            Value::Object(map) => Ok(Some(Self(map))),
            other => Err(wrong(key, "an object", &other)),
        }
    }

    /// Value of `key`, case-insensitively: the exact one before others, a value before `null`.
    pub(crate) fn take(&mut self, key: &str) -> Value {
        let exact = self.0.remove(key).unwrap_or_default();
        let alike: Vec<String> = self.0.keys().filter(|k| k.eq_ignore_ascii_case(key)).cloned().collect();
        let others = alike.iter().filter_map(|k| self.0.remove(k));
        others.filter(|v| !v.is_null()).last().filter(|_| exact.is_null()).unwrap_or(exact)
    }

    /// A string; empty if it is not there.
    pub(crate) fn string(&mut self, key: &'static str) -> Result<String, JsonError> {
        string(key, self.take(key))
    }

    /// A boolean; false if it is not there.
    pub(crate) fn boolean(&mut self, key: &'static str) -> Result<bool, JsonError> {
        boolean(key, self.take(key))
    }

    /// A whole number.
    pub(crate) fn integer(&mut self, key: &'static str) -> Result<Option<i64>, JsonError> {
        match self.take(key) {
            Value::Null => Ok(None),
            value => whole(&value).map(Some).ok_or_else(|| wrong(key, "a whole number", &value)),
        }
    }

    /// A list; `None` if it is not there.
    pub(crate) fn list(&mut self, key: &'static str) -> Result<Option<Vec<Value>>, JsonError> {
        match self.take(key) {
            Value::Null => Ok(None),
            Value::Array(items) => Ok(Some(items)),
            other => Err(wrong(key, "a list", &other)),
        }
    }

    /// A list of strings; `None` if it is not there.
    pub(crate) fn strings(&mut self, key: &'static str) -> Result<Option<Vec<String>>, JsonError> {
        self.list(key)?.map(|items| items.into_iter().map(|item| string(key, item)).collect()).transpose()
    }

    /// An object; `None` if it is not there.
    pub(crate) fn object(&mut self, key: &'static str) -> Result<Option<Self>, JsonError> {
        Self::of(key, self.take(key))
    }

    /// A list of objects, each read by `read`; a `null` among them reads as an empty one.
    pub(crate) fn objects<T, E: From<JsonError>>(
        &mut self,
        key: &'static str,
        read: impl Fn(Self) -> Result<T, E>,
    ) -> Result<Option<Vec<T>>, E> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        let read_one = |item| read(Self::of(key, item)?.unwrap_or_default());
        items.into_iter().map(read_one).collect::<Result<_, E>>().map(Some)
    }

    /// True if the value that [`Self::take`] would return fits.
    pub(crate) fn holds(&self, key: &str, fits: impl Fn(&Value) -> bool) -> bool {
        let mut alike = self.0.iter().filter(|(k, _)| k.eq_ignore_ascii_case(key));
        alike.all(|(_, value)| value.is_null() || fits(value))
    }

    /// Remaining keys.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.0
    }
}

/// Every value must be a string; `null` is an empty one.
pub(crate) fn string(key: &'static str, value: Value) -> Result<String, JsonError> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        other => Err(wrong(key, "a string", &other)),
    }
}

/// Every value must be a boolean; `null` is false.
pub(crate) fn boolean(key: &'static str, value: Value) -> Result<bool, JsonError> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(is) => Ok(is),
        other => Err(wrong(key, "true or false", &other)),
    }
}

/// The whole number that `value` is, also if written as `2.0` or `2e0`.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    /// Up to here a float is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole_float = |f: &f64| f.fract() == 0.0 && f.abs() <= EXACT;
    value.as_i64().or_else(|| value.as_f64().filter(whole_float).map(|f| f as i64))
}

fn wrong(key: &'static str, wanted: &'static str, found: &Value) -> JsonError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    JsonError::Type { key, wanted, found }
}

/// Collects the values of these keys, under the keys' own spelling.
struct Known<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Known<'_> {
    type Value = Fields;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<Fields, D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Known<'_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Fields, E> {
        Ok(Fields::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let known = self.0.iter().find(|k| k.eq_ignore_ascii_case(&key));
            let Some(known) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: Value = map.next_value()?;
            // A null takes away the list or the map of an earlier key of the name, and leaves anything else.
            let is_list_or_map = |earlier: &Value| earlier.is_array() || earlier.is_object();
            if !value.is_null() || fields.get(*known).is_some_and(is_list_or_map) {
                fields.insert((*known).to_owned(), value);
            }
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Fields, JsonError> {
        Fields::parse(text.as_bytes(), &["name", "n"])
    }

    fn name_of(text: &str) -> String {
        parse(text).unwrap().string("name").unwrap()
    }

    #[test]
    fn keys_match_in_any_case_and_the_last_counts() {
        assert_eq!(name_of(r#"{"NAME":"a"}"#), "a");
        assert_eq!(name_of(r#"{"name":"a","name":"b"}"#), "b");
        assert_eq!(name_of(r#"{"name":"a","Name":"b"}"#), "b");
        assert_eq!(name_of(r#"{"name":"a","name":null}"#), "a");
        for text in [r#"{"n":["a"],"n":null}"#, r#"{"n":{"a":1},"N":null}"#] {
            assert_eq!(parse(text).unwrap().take("n"), Value::Null, "{text}");
        }
    }

    #[test]
    fn null_is_an_empty_object_and_others_are_none() {
        assert_eq!(name_of("null"), "");
        for text in ["[]", "7", "\"x\"", "true", "", "{", "{} x", "{}{}", "\u{feff}{}", "{\"name\":1e999}"] {
            assert!(matches!(parse(text), Err(JsonError::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn what_is_unknown_may_be_as_deep_as_it_likes() {
        let deep = format!("{{\"x\":{}{},\"name\":\"a\"}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(name_of(&deep), "a");
        assert!(parse(&deep.replace("\"x\"", "\"n\"")).is_err(), "a known key is read, and has a limit");
    }

    #[test]
    fn invalid_utf8_reads_as_replacement() {
        let mut fields = Fields::parse(b"{\"name\":\"a\xff\"}", &["name"]).unwrap();
        assert_eq!(fields.string("name").unwrap(), "a\u{fffd}");
    }

    #[test]
    fn exact_case_wins_inside_and_a_value_before_null() {
        let mut fields =
            Fields::of("x", json!({"K": 1, "k": 2, "z": null, "Z": 3, "q": 1})).unwrap().unwrap();
        assert_eq!(fields.take("k"), json!(2));
        assert_eq!(fields.take("z"), json!(3));
        assert_eq!(fields.take("k"), Value::Null, "every spelling is gone");
        assert_eq!(Value::from(fields.rest()), json!({"q": 1}));
    }

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        assert_eq!(whole(&json!(2.0)), Some(2));
        assert_eq!(whole(&json!(-7)), Some(-7));
        assert_eq!(whole(&json!(i64::MAX)), Some(i64::MAX));
        for not in [json!(1.5), json!(1e30), json!(u64::MAX), json!("2")] {
            assert_eq!(whole(&not), None, "{not}");
        }
    }

    #[test]
    fn a_wrong_type_names_the_key() {
        let mut fields = parse(r#"{"name":7}"#).unwrap();
        assert_eq!(fields.string("name").unwrap_err().to_string(), "read \"name\": a number is not a string");
    }
}
