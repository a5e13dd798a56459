// SPDX-License-Identifier: Apache-2.0
//! A command's words, with the quotation that `iptables-save` uses.

use std::collections::VecDeque;

use super::SaveReason;

/// The words that are left, each with what it was written as.
pub(super) struct Words(VecDeque<String>);

impl Words {
    /// Splits a line at blanks outside of quotation marks; a backslash inside of them takes the next character as it is.
    pub(super) fn new(line: &str) -> Result<Self, SaveReason> {
        let mut words = VecDeque::new();
        let mut letters = line.chars().peekable();
        loop {
            while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
            if letters.peek().is_none() {
                return Ok(Self(words));
            }
            let mut word = String::new();
            let mut quoted = false;
            while let Some(letter) = letters.next_if(|letter| quoted || !letter.is_whitespace()) {
                match letter {
                    '"' => quoted = !quoted,
                    '\\' if quoted => word.extend(letters.next()),
                    letter => word.push(letter),
                }
            }
            if quoted {
                return Err(SaveReason::Quotation);
            }
            words.push_back(word);
        }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        self.0.pop_front()
    }

    pub(super) fn peek(&self) -> Option<&str> {
        self.0.front().map(String::as_str)
    }

    /// The next word; without one the text ends where an option like `example` should be.
    pub(super) fn next_option(&mut self, example: &str) -> Result<String, SaveReason> {
        self.next().ok_or_else(|| SaveReason::NoValue(example.to_owned()))
    }

    /// The value of an option.
    pub(super) fn value(&mut self, option: &str) -> Result<String, SaveReason> {
        self.next().ok_or_else(|| SaveReason::NoValue(option.to_owned()))
    }

    /// A number, if the next word is one.
    pub(super) fn position(&mut self) -> Option<usize> {
        let number = self.peek()?.parse().ok()?;
        self.next();
        Some(number)
    }

    /// Remaining words as one text.
    pub(super) fn rest(&self) -> String {
        let quote = |word: &String| {
            if word.is_empty() || word.contains(char::is_whitespace) {
                format!("{word:?}")
            } else {
                word.clone()
            }
        };
        self.0.iter().map(quote).collect::<Vec<_>>().join(" ")
    }
}
