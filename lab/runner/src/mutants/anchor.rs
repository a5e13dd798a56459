// SPDX-License-Identifier: Apache-2.0
//! Where a text of the catalogue stands in a file of production. White space does not count: rustfmt may wrap lines anew.

use std::collections::BTreeSet;
use std::ops::Range;

/// Every place of `anchor` in `text`, in bytes. It neither begins nor ends within a word.
#[must_use]
pub fn find(text: &str, anchor: &str) -> Vec<Range<usize>> {
    let wanted: Vec<char> = anchor.chars().filter(|c| !c.is_whitespace()).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let ink: Vec<(usize, char)> = text.char_indices().filter(|(_, c)| !c.is_whitespace()).collect();
    ink.windows(wanted.len())
        .filter(|window| window.iter().map(|(_, c)| c).eq(&wanted))
        .filter_map(|window| {
            let ((first, _), (last, c)) = (window.first()?, window.last()?);
            Some(*first..last + c.len_utf8())
        })
        .filter(|range| !splits_a_word(text, range.start) && !splits_a_word(text, range.end))
        .collect()
}

fn splits_a_word(text: &str, at: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (before, after) = text.split_at(at);
    before.chars().next_back().is_some_and(is_word) && after.chars().next().is_some_and(is_word)
}

/// Line number of a byte.
#[must_use]
pub fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The line that has most in common with the anchor's first one, with its number.
#[must_use]
pub fn nearest<'a>(text: &'a str, anchor: &str) -> Option<(usize, &'a str)> {
    let wanted = words(anchor.lines().find(|line| !line.trim().is_empty())?);
    let likeness = |line: &str| {
        let found = words(line);
        let common = found.intersection(&wanted).count();
        common * 1000 / (found.len() + wanted.len()).max(1)
    };
    // Of equals `max_by_key` takes the last: from the end, that is the first of the file.
    let all: Vec<_> =
        text.lines().enumerate().map(|(at, line)| (likeness(line), at + 1, line.trim())).collect();
    let (likeness, number, line) = all.into_iter().rev().max_by_key(|(likeness, ..)| *likeness)?;
    (likeness > 0).then_some((number, line))
}

fn words(line: &str) -> BTreeSet<&str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn a() {\n    if one_more(x,\n        y) { recount(z) }\n    count(z);\n}\n";

    fn found(anchor: &str) -> Vec<&'static str> {
        find(TEXT, anchor).into_iter().map(|range| &TEXT[range]).collect()
    }

    #[test]
    fn lines_may_be_wrapped_otherwise() {
        assert_eq!(found("one_more(x, y)\n"), ["one_more(x,\n        y)"]);
        assert_eq!(found("{recount( z )}"), ["{ recount(z) }"]);
    }

    #[test]
    fn an_anchor_begins_and_ends_between_words() {
        assert_eq!(found("count(z)"), ["count(z)"]);
        assert_eq!(find(TEXT, "count(z)")[0].start, TEXT.find("count(z);").unwrap());
        assert!(found("one").is_empty());
        assert_eq!(found("z").len(), 2);
        assert!(found(" \n").is_empty());
    }

    #[test]
    fn the_nearest_line_shares_most_words() {
        assert_eq!(nearest(TEXT, "\ncount(z, w);\n"), Some((4, "count(z);")));
        assert_eq!(nearest(TEXT, "nothing like it"), None);
        assert_eq!(line(TEXT, TEXT.find("count(z);").unwrap()), 4);
    }
}
