// SPDX-License-Identifier: Apache-2.0
//! When a service account's token ends, by its own claims. Its signature is the API server's to check.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Expiry of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenExpiry {
    /// `exp`, since 1970.
    Until(Duration),
    /// No `exp`: tokens in Secrets.
    Endless,
}

impl TokenExpiry {
    /// Decodes a token; `None` if it is no JWT.
    #[must_use]
    pub fn of(token: &str) -> Option<Self> {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok().filter(Value::is_object)?;
        Some(claims["exp"].as_u64().map_or(Self::Endless, |end| Self::Until(Duration::from_secs(end))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_in_the_claims() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(TokenExpiry::of(&token(r#"{"exp":7}"#)), Some(TokenExpiry::Until(Duration::from_secs(7))));
        assert_eq!(TokenExpiry::of(&token(r#"{"sub":"x"}"#)), Some(TokenExpiry::Endless));
        for other in ["", "opaque", "a.b.c", "a.!.c"] {
            assert_eq!(TokenExpiry::of(other), None, "{other}");
        }
        assert_eq!(TokenExpiry::of(&token("7")), None);
    }
}
