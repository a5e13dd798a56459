// SPDX-License-Identifier: Apache-2.0
//! The error that a CNI plugin prints, and its codes.

use std::error::Error;
use std::fmt;

/// An error and its sources, separated by `: `. A source whose words the text already has is left out.
#[must_use]
pub fn with_sources(error: &dyn Error) -> String {
    let sources = std::iter::successors(error.source(), |&source| source.source());
    sources.fold(error.to_string(), |text, source| {
        let source = source.to_string();
        if text.contains(&source) { text } else { format!("{text}: {source}") }
    })
}

/// The code of a CNI error. The specification owns 1 to 99; 100 and above are the plugin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// The configuration's or the result's version does not fit.
    pub const INCOMPATIBLE_VERSION: Self = Self(1);
    /// An environment variable is missing or not valid.
    pub const INVALID_ENVIRONMENT: Self = Self(4);
    /// Reading or writing failed.
    pub const IO: Self = Self(5);
    /// Something could not be decoded.
    pub const DECODING: Self = Self(6);
    /// The network configuration is not valid.
    pub const INVALID_CONFIG: Self = Self(7);
    /// The network namespace is not one to work in.
    pub const INVALID_NETNS: Self = Self(8);
    /// A passing condition: the runtime should try again later.
    pub const TRY_AGAIN_LATER: Self = Self(11);
    /// STATUS: the plugin cannot serve ADD.
    pub const NOT_AVAILABLE: Self = Self(50);
    /// The first of the plugin's own: a check of ours found the pod not as it must be.
    pub const PLUGIN: Self = Self(100);
    /// Any other failure.
    pub const INTERNAL: Self = Self(999);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An error, as reported to the runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{msg}{}{details}", if details.is_empty() { "" } else { "; " })]
pub struct CniError {
    /// Code.
    pub code: Code,
    /// One short sentence.
    pub msg: String,
    /// More, for people; may be empty.
    pub details: String,
}

impl CniError {
    /// An error without details.
    #[must_use]
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// An error with the message `what` and the chain of causes.
    #[must_use]
    pub fn caused(code: Code, what: &str, cause: &dyn std::error::Error) -> Self {
        Self::new(code, format!("{what}: {}", with_sources(cause)))
    }

    /// The same error with `details`.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// JSON for stdout, indented by four spaces, ended by a newline; `details` left out if empty. There is no `cniVersion`, as in
    /// upstream's output.
    #[must_use]
    pub fn to_json(&self) -> String {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = format!("{{\n    \"code\": {},\n    \"msg\": {}", self.code, quote(&self.msg));
        if !self.details.is_empty() {
            out.push_str(&format!(",\n    \"details\": {}", quote(&self.details)));
        }
        out.push_str("\n}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_once() {
        #[derive(Debug)]
        struct Link(&'static str, Option<Box<Link>>);
        impl fmt::Display for Link {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.0)
            }
        }
        impl Error for Link {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.1.as_deref().map(|source| source as &(dyn Error + 'static))
            }
        }
        let inner = Link("read a: no such file", Some(Box::new(Link("no such file", None))));
        assert_eq!(with_sources(&Link("apply", Some(Box::new(inner)))), "apply: read a: no such file");
        assert_eq!(with_sources(&Link("alone", None)), "alone");
    }

    #[test]
    fn details_are_left_out_when_empty() {
        let error = CniError::new(Code::INVALID_CONFIG, "missing \"name\"");
        assert_eq!(error.to_json(), "{\n    \"code\": 7,\n    \"msg\": \"missing \\\"name\\\"\"\n}\n");
        assert_eq!(error.to_string(), "missing \"name\"");
    }

    #[test]
    fn details_are_escaped_and_indented() {
        let error = CniError::new(Code::TRY_AGAIN_LATER, "m").with_details("a\nb");
        assert_eq!(
            error.to_json(),
            "{\n    \"code\": 11,\n    \"msg\": \"m\",\n    \"details\": \"a\\nb\"\n}\n"
        );
        assert_eq!(error.to_string(), "m; a\nb");
    }
}
