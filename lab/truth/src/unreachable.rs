// SPDX-License-Identifier: Apache-2.0
//! Rules that no packet of a table can meet, with the reason.

use serde::Deserialize;

/// A rule that no packet can meet.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreachable {
    /// `nat ISTIO_OUTPUT -o lo … -j RETURN`: table, chain, rule. A `*` that stands alone is any part of a rule.
    pub rule: String,
    /// Why.
    pub because: String,
    /// The one configuration in which a packet meets it.
    pub but_in: Option<String>,
}

impl Unreachable {
    /// True if this names a rule with this text.
    #[must_use]
    pub fn names(&self, text: &str) -> bool {
        let pattern: Vec<&str> = self.rule.split(' ').collect();
        let words: Vec<&str> = text.split(' ').collect();
        fits(&pattern, &words)
    }
}

fn fits(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], words) => words.is_empty(),
        (["*", rest @ ..], words) => (0..=words.len()).any(|skipped| fits(rest, &words[skipped..])),
        ([word, pattern @ ..], [first, words @ ..]) => word == first && fits(pattern, words),
        (_, []) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_part_of_a_rule() {
        let names = |rule: &str, text: &str| {
            Unreachable { rule: rule.to_owned(), because: String::new(), but_in: None }.names(text)
        };
        let text = "nat OUT -o lo ! -d 127.0.0.1/32 -m owner --gid-owner 7 -j IN";
        assert!(names(text, text));
        assert!(names("nat OUT -o lo * --gid-owner * -j IN", text));
        assert!(!names("nat OUT -o lo * --uid-owner * -j IN", text));
        assert!(names("* -o lo *", text));
        assert!(!names("nat OUT -o lo", text));
        assert!(!names("nat OUT -o lo * --gid-owner", text));
    }
}
