// SPDX-License-Identifier: Apache-2.0
//! Go's readings of text and its wordings when it cannot read it. Users know these messages from `kubectl describe` and
//! search for them, so they are kept to the letter. Compared with Go 1.26's own output over random input.

mod number;
mod prefix;
mod quote;

pub use number::{BoolError, UintError, UintErrorKind, parse_bool, parse_port};
pub use prefix::{PrefixError, parse_prefix};
pub use quote::Quoted;
