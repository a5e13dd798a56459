// SPDX-License-Identifier: Apache-2.0
//! The part of YAML that a configuration file needs, as a tree of texts: nobody guesses types here, so a token that looks
//! like a number stays a text. JSON is YAML, too. Errors name a place and never quote what stands there.
//!
//! Why not a typed decoder over the same parser: it is several times this size in the plugin's binary, for one file of thirty lines
//! that most calls never read.

use granit_parser::{Event, Parser, ScalarStyle, ScanError, StrInput};

/// Deeper than any configuration, far less deep than the stack.
const MAX_DEPTH: usize = 32;

/// A value.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// Nothing, `~`, `null`, or an absent key.
    Null,
    /// A scalar, as written.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in order.
    Map(Vec<(String, Node)>),
}

/// A place in the text, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// A value of another kind than was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Under which key.
    pub key: &'static str,
}

const NULL: &Node = &Node::Null;

impl Node {
    /// Value of `key`, [`Node::Null`] if it is absent. The first of equal keys counts.
    ///
    /// # Errors
    /// This is no mapping.
    pub fn get(&self, key: &'static str) -> Result<&Node, Shape> {
        match self {
            Self::Map(entries) => {
                Ok(entries.iter().find(|(name, _)| name == key).map_or(NULL, |(_, value)| value))
            }
            Self::Null => Ok(NULL),
            Self::Text(_) | Self::List(_) => Err(Shape { key }),
        }
    }

    /// The text that `key` has; an empty one counts as absent.
    ///
    /// # Errors
    /// This is no mapping, or the value no scalar.
    pub fn text(&self, key: &'static str) -> Result<Option<&str>, Shape> {
        match self.get(key)? {
            Self::Null => Ok(None),
            Self::Text(text) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Self::List(_) | Self::Map(_) => Err(Shape { key }),
        }
    }

    /// The sequence that `key` has.
    ///
    /// # Errors
    /// This is no mapping, or the value no sequence.
    pub fn list(&self, key: &'static str) -> Result<&[Node], Shape> {
        match self.get(key)? {
            Self::Null => Ok(&[]),
            Self::List(items) => Ok(items),
            Self::Text(_) | Self::Map(_) => Err(Shape { key }),
        }
    }
}

/// Reads one document.
///
/// # Errors
/// The place of what is not YAML, or YAML that a configuration has no use for: aliases, keys that are no scalars.
pub fn parse(text: &str) -> Result<Node, TextPosition> {
    let mut reader = Reader { parser: Parser::new_from_str(text), depth: 0 };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (Event::StreamEnd, _) => return Ok(Node::Null),
            (first, place) => return reader.node(first, place),
        }
    }
}

struct Reader<'i> {
    parser: Parser<'i, StrInput<'i>>,
    depth: usize,
}

impl<'i> Reader<'i> {
    /// The next event that means something. The parser tells comments, too, where another crate of the build asks it to.
    fn next(&mut self) -> Result<(Event<'i>, TextPosition), TextPosition> {
        loop {
            match self.parser.next() {
                Some(Ok((event, span))) if has_meaning(&event) => {
                    return Ok((event, place(span.start.line(), span.start.col())));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(place_of(&error)),
                None => return Ok((Event::StreamEnd, place(0, 0))),
            }
        }
    }

    fn node(&mut self, event: Event<'i>, at: TextPosition) -> Result<Node, TextPosition> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(at);
        }
        let node = match event {
            Event::Scalar(text, style, ..) => Ok(scalar(&text, style)),
            Event::SequenceStart(..) => self.sequence(),
            Event::MappingStart(..) => self.mapping(),
            _ => Err(at),
        };
        self.depth -= 1;
        node
    }

    fn sequence(&mut self) -> Result<Node, TextPosition> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::List(items)),
                (event, at) => items.push(self.node(event, at)?),
            }
        }
    }

    fn mapping(&mut self) -> Result<Node, TextPosition> {
        let mut entries = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Node::Map(entries)),
                (Event::Scalar(key, ..), _) => key.into_owned(),
                (_, at) => return Err(at),
            };
            let (event, at) = self.next()?;
            entries.push((key, self.node(event, at)?));
        }
    }
}

fn has_meaning(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Alias(..)
            | Event::UnresolvedAlias(..)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd
    )
}

fn scalar(text: &str, style: ScalarStyle) -> Node {
    let null = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL");
    if null { Node::Null } else { Node::Text(text.to_owned()) }
}

fn place(line: usize, column_from_zero: usize) -> TextPosition {
    TextPosition { line, column: column_from_zero + 1 }
}

fn place_of(error: &ScanError) -> TextPosition {
    place(error.marker().line(), error.marker().col())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node {
        parse(text).unwrap_or_else(|place| panic!("{text}: {place:?}"))
    }

    #[test]
    fn block_flow_and_json_read_the_same() {
        let block = read("a: 1\nb:\n- x\n- c: 'y'\n");
        assert!(block == read("{a: 1, b: [x, {c: y}]}"));
        assert!(block == read("{\n\t\"a\": \"1\",\n\t\"b\": [\"x\", {\"c\": \"\\u0079\"}]\n}\n"));
        assert!(block == read("--- # head\na: 1\nb: [x, {c: \"y\"}]\n..."));
    }

    #[test]
    fn texts_are_not_guessed_at() {
        let node = read("a: 0123\nb: true\nc: \"null\"\nd: null\ne: ~\nf:\ng: ''\nh: |\n  two\n  lines\n");
        let text = |key| node.text(key).unwrap();
        assert_eq!(text("a"), Some("0123"));
        assert_eq!(text("b"), Some("true"));
        assert_eq!(text("c"), Some("null"));
        assert_eq!([text("d"), text("e"), text("f"), text("g"), text("none")], [None; 5]);
        assert_eq!(text("h"), Some("two\nlines\n"));
    }

    #[test]
    fn another_kind_than_expected_is_an_error() {
        let node = read("a: {b: c}\nd: [e]\nf: g\n");
        assert_eq!(node.text("a"), Err(Shape { key: "a" }));
        assert!(node.list("f").is_err());
        assert!(node.get("f").unwrap().get("x").is_err());
        assert!(node.get("d").unwrap().text("x").is_err());
        assert!(node.list("d").unwrap() == [Node::Text("e".to_owned())]);
        assert!(node.list("none").unwrap().is_empty());
    }

    #[test]
    fn empty_texts_are_nothing() {
        for text in ["", "\n", "# only a comment\n", "---\n"] {
            assert!(read(text) == Node::Null, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_for_us_is_refused_with_its_place() {
        for (text, line) in
            [("a: [1", 1), ("a: 1\nb: \"x", 2), ("a: &x 1\nb: *x\n", 2), ("? [a]\n: b\n", 1), ("a: *none", 1)]
        {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(error.line >= line, "{text}: {error:?}");
        }
        let deep = "[".repeat(10_000);
        assert!(parse(&deep).is_err());
    }
}
