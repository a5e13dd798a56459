// SPDX-License-Identifier: Apache-2.0
//! An error as one line.

use std::error::Error;

/// Error with its sources.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
