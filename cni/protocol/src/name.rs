// SPDX-License-Identifier: Apache-2.0
//! The one rule for network names and container ids.

/// True if `text` starts with a letter or digit and goes on with letters, digits, `_`, `.` and `-` (ASCII all).
pub(crate) fn is_valid(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn names_start_with_a_letter_or_digit() {
        for fine in ["n", "7", "ok_1.2-3", "A-", "a."] {
            assert!(is_valid(fine), "{fine}");
        }
        for bad in ["", "-n", ".n", "_n", "n/x", "a b", "a\n", "\u{fc}", "a\u{fc}", "a\0"] {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }
}
