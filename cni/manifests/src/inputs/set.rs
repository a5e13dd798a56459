// SPDX-License-Identifier: Apache-2.0
//! `--set a.b=c,d[0]=e`, as Helm reads it: `[0]` is a place of a list, `{a,b}` a list, `\` keeps the next letter as it is, and what reads as
//! a number, as true, false or null is one. What Helm takes and passes over, a key without a name, is refused.

use serde_json::{Map, Value};

use crate::mistake::{GivenValue, Mistake, Mistakes};

/// Highest index of a list; Helm's, too.
const LAST: usize = 65_536;
/// Maximum depth of a name; Helm allows as many keys.
const DEEP: usize = 30;

/// Applies an assignment to values.
///
/// # Errors
/// Malformed assignment.
pub fn apply(values: &mut Value, word: &str) -> Result<(), Mistakes> {
    let mut left = Left(word.chars());
    loop {
        left.assign(values, DEEP).map_err(|why| {
            let wanted = format!("KEY=VALUE,…, as Helm writes them: {why}");
            Mistake::Wrong { given: GivenValue::new("--set", word), wanted }
        })?;
        if left.0.as_str().is_empty() {
            return Ok(());
        }
    }
}

/// Parse error.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("a key has no name")]
    NoName,
    #[error("{0} has no value")]
    NoValue(String),
    #[error("[{0}] is no place of a list: it must be a number from 0 to {LAST}")]
    NoPlace(String),
    #[error("after ] comes =, . or [")]
    AfterPlace,
    #[error("a list ends with }}")]
    Open,
    #[error("what is to be {0} is {1} already")]
    Other(&'static str, Value),
    #[error("a name has more than {DEEP} parts")]
    TooDeep,
}

/// Rest of the input.
struct Left<'a>(std::str::Chars<'a>);

impl Left<'_> {
    /// Reads up to the first unescaped of these characters, and returns it; `None` at the end.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        while let Some(letter) = self.0.next() {
            match letter {
                stop if stops.contains(&stop) => return (text, Some(stop)),
                '\\' => text.extend(self.0.next()),
                other => text.push(other),
            }
        }
        (text, None)
    }

    /// Skips the next character if it is this one.
    fn skip(&mut self, letter: char) -> bool {
        let rest = self.0.as_str().strip_prefix(letter);
        rest.map(|rest| self.0 = rest.chars()).is_some()
    }

    /// Assignment into a map.
    fn assign(&mut self, map: &mut Value, deep: usize) -> Result<(), Unreadable> {
        let deep = deep.checked_sub(1).ok_or(Unreadable::TooDeep)?;
        let (key, end) = self.until(&['=', '[', ',', '.']);
        if key.is_empty() {
            return Err(Unreadable::NoName);
        }
        if map.is_null() {
            *map = Map::new().into();
        }
        let Value::Object(map) = map else { return Err(Unreadable::Other("a map", map.take())) };
        match end {
            Some('=') => drop(map.insert(key, self.value()?)),
            Some('[') => self.place(map.entry(key).or_insert(Value::Null), deep)?,
            Some('.') => self.assign(map.entry(key).or_insert(Value::Null), deep)?,
            _ => return Err(Unreadable::NoValue(key)),
        }
        Ok(())
    }

    /// Assignment into a list, after `[`.
    fn place(&mut self, list: &mut Value, deep: usize) -> Result<(), Unreadable> {
        let deep = deep.checked_sub(1).ok_or(Unreadable::TooDeep)?;
        let (text, end) = self.until(&[']']);
        let place = text.parse().ok().filter(|place| end.is_some() && *place <= LAST);
        let place: usize = place.ok_or(Unreadable::NoPlace(text))?;
        if list.is_null() {
            *list = Value::Array(Vec::new());
        }
        let Value::Array(list) = list else { return Err(Unreadable::Other("a list", list.take())) };
        list.resize(list.len().max(place + 1), Value::Null);
        let place = &mut list[place];
        match self.0.next() {
            Some('=') => *place = self.value()?,
            Some('[') => self.place(place, deep)?,
            Some('.') => {
                // Here, unlike below a key, what is no map makes way for one.
                if !place.is_object() {
                    *place = Value::Null;
                }
                self.assign(place, deep)?;
            }
            _ => return Err(Unreadable::AfterPlace),
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value, Unreadable> {
        if !self.skip('{') {
            return Ok(typed(self.until(&[',']).0));
        }
        let mut list = Vec::new();
        loop {
            let (item, end) = self.until(&[',', '}']);
            list.push(typed(item));
            match end {
                Some(',') => {}
                Some(_) => break,
                None => return Err(Unreadable::Open),
            }
        }
        self.skip(',');
        Ok(list.into())
    }
}

fn typed(text: String) -> Value {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    match text.as_str() {
        _ if is("true") => true.into(),
        _ if is("false") => false.into(),
        _ if is("null") => Value::Null,
        "0" => 0.into(),
        // A leading 0 is a mode, not a number.
        _ if text.starts_with('0') => text.into(),
        number => number.parse::<i64>().map_or_else(|_| text.clone().into(), Value::from),
    }
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
            (r"podLabels.app\.kubernetes\.io/x=a\,b", json!({"podLabels": {"app.kubernetes.io/x": "a,b"}})),
            ("kubeconfigMode=0640", json!({"kubeconfigMode": "0640"})),
            ("x=null,y=,z=a=b", json!({"x": null, "y": "", "z": "a=b"})),
            (
                "tolerations[0].key=a,tolerations[0].operator=Exists",
                json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            ),
            ("a[1][0]={x,1}", json!({"a": [null, [["x", 1]]]})),
        ] {
            let mut values = json!({});
            apply(&mut values, word).unwrap();
            assert_eq!(values, want, "{word}");
        }
    }

    #[test]
    fn places_of_a_list_that_is_there_are_set_one_by_one() {
        let mut values = json!({"l": [{"a": 1}, "x"]});
        apply(&mut values, "l[0].b=2,l[2]=z").unwrap();
        apply(&mut values, "l[1].c=3").unwrap();
        assert_eq!(values, json!({"l": [{"a": 1, "b": 2}, {"c": 3}, "z"]}));
    }

    #[test]
    fn what_is_no_assignment_is_refused_with_the_reason() {
        let deep = format!("{}=1", vec!["a"; DEEP + 1].join("."));
        for (word, why) in [
            ("chained", "chained has no value"),
            ("a,b=1", "a has no value"),
            ("=x", "no name"),
            ("a..b=1", "no name"),
            ("", "no name"),
            ("a[x]=1", "[x] is no place"),
            ("a[-1]=1", "[-1] is no place"),
            ("a[65537]=1", "[65537] is no place"),
            ("a[0", "[0] is no place"),
            ("a[0]", "after ]"),
            ("a[0]x=1", "after ]"),
            ("a={x", "a list ends with }"),
            ("a=1,a.b=2", "what is to be a map is 1 already"),
            ("a=1,a[0]=2", "what is to be a list is 1 already"),
            (&deep, "more than 30"),
        ] {
            let error = apply(&mut json!({}), word).unwrap_err().to_string();
            assert!(error.starts_with("--set: ") && error.contains(why), "{word}: {error}");
        }
    }
}
