// SPDX-License-Identifier: Apache-2.0
//! A list, read item by item while it comes in: a server may send all of it as one page, whatever limit was asked for, and a thousand
//! pods as the API writes them are many times what we keep of them.

use bytes::Bytes;
use serde::Deserialize;

const ITEM_LIMIT: usize = 8 * 1024 * 1024;

/// List response without its items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Frame {
    #[serde(default)]
    pub(super) metadata: FrameMetadata,
    /// Empty in a list, absent or `null` where there are none, and something else in what is no list.
    #[serde(default)]
    items: Option<[(); 0]>,
}

/// `metadata` of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FrameMetadata {
    pub(super) resource_version: String,
    /// `continue`; empty on the last page.
    #[serde(rename = "continue")]
    pub(super) next: String,
}

/// Malformed list.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("an item is longer than {ITEM_LIMIT} bytes")]
    TooLong,
    #[error("what is around the items: {0}")]
    Frame(#[from] serde_json::Error),
}

/// Cuts the items out of a list. It follows strings and brackets only; what is inside, and what remains around the items, is for a
/// parser to judge.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    depth: usize,
    in_items: bool,
    in_string: bool,
    escaped: bool,
    item: Vec<u8>,
    frame: Vec<u8>,
}

/// Depth of the elements of `items`.
const ITEMS_DEPTH: usize = 2;

impl Cutter {
    /// Takes the next piece of the body, and hands over each item that it completes.
    pub(super) fn take(&mut self, piece: &Bytes, mut item: impl FnMut(&[u8])) -> Result<(), ListError> {
        for &byte in piece {
            if self.byte(byte) {
                item(&self.item);
                self.item.clear();
            }
            if self.item.len().max(self.frame.len()) > ITEM_LIMIT {
                return Err(ListError::TooLong);
            }
        }
        Ok(())
    }

    /// The frame, at the end of the body.
    pub(super) fn finish(self) -> Result<Frame, ListError> {
        Ok(serde_json::from_slice(&self.frame)?)
    }

    /// Returns true when an item is complete.
    fn byte(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            self.keep(byte);
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' if self.depth == 1 && self.follows_items() => {
                self.in_items = true;
                self.depth += 1;
                self.frame.push(byte);
                return false;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.in_items &= self.depth >= ITEMS_DEPTH;
                self.keep(byte);
                return self.in_items && self.depth == ITEMS_DEPTH;
            }
            b',' | b' ' | b'\n' | b'\r' | b'\t' if self.in_items && self.depth == ITEMS_DEPTH => {
                return false;
            }
            _ => {}
        }
        self.keep(byte);
        false
    }

    fn keep(&mut self, byte: u8) {
        if self.in_items { self.item.push(byte) } else { self.frame.push(byte) }
    }

    /// True if the next value is that of `items`.
    fn follows_items(&self) -> bool {
        let before = self.frame.trim_ascii_end().strip_suffix(b":");
        before.is_some_and(|key| key.trim_ascii_end().ends_with(b"\"items\""))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn cut(text: &str, sizes: &[usize]) -> Result<(Vec<Value>, Frame), ListError> {
        let (mut cutter, mut items, mut rest) = (Cutter::default(), Vec::new(), text.as_bytes());
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            cutter.take(&Bytes::copy_from_slice(piece), |item| {
                items.push(serde_json::from_slice(item).unwrap())
            })?;
            rest = after;
        }
        Ok((items, cutter.finish()?))
    }

    fn text() -> impl Strategy<Value = String> {
        // Inputs that mislead a scanner of brackets and quotes.
        proptest::string::string_regex(r#"([\[\]{},:"\\ a]|items){0,8}"#).unwrap()
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![text().prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
        let tree = leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text(), inner, 0..4).prop_map(Value::from_iter),
            ]
        });
        prop::collection::btree_map(text(), tree, 0..4).prop_map(Value::from_iter)
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(
            items in prop::collection::vec(object(), 0..5),
            other in object(),
            pretty: bool,
            sizes in prop::collection::vec(1..40_usize, 1..6),
        ) {
            let list = json!({"a": other, "items": items, "metadata": {"resourceVersion": "7", "continue": "c"}, "z": ["items"]});
            let text = if pretty { serde_json::to_string_pretty(&list) } else { serde_json::to_string(&list) }.unwrap();
            let (got, frame) = cut(&text, &sizes).unwrap();
            prop_assert_eq!(got, items);
            prop_assert_eq!((frame.metadata.resource_version.as_str(), frame.metadata.next.as_str()), ("7", "c"));
        }
    }

    #[test]
    fn a_list_without_items_is_a_list() {
        for items in ["null", "[]", "[ ]"] {
            let (got, _) = cut(&format!(r#"{{"items" : {items}}}"#), &[3]).unwrap();
            assert!(got.is_empty());
        }
    }

    #[test]
    fn what_breaks_off_or_is_no_list_is_an_error() {
        for text in [
            "",
            "<html>",
            "7",
            r#"{"items":[{"a":1},{"b"#,
            r#"{"items":[{"a":1}"#,
            r#"{"items":[{"a":1}]"#,
            r#"{"items":{"a":1}}"#,
            r#"{"items":[{"a":1}]}}"#,
        ] {
            assert!(cut(text, &[4]).is_err(), "{text}");
        }
    }
}
