// SPDX-License-Identifier: Apache-2.0
//! Query parameters, and segments of a path.

use http::Uri;

/// Query parameters.
#[derive(Debug, Clone)]
pub struct Query(Vec<(String, String)>);

impl Query {
    #[must_use]
    pub fn of(uri: &Uri) -> Self {
        Self(form_urlencoded::parse(uri.query().unwrap_or("").as_bytes()).into_owned().collect())
    }

    /// A parameter that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// All values of a parameter, in order.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Without these parameters.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|(key, _)| !names.contains(&key.as_str()));
        self
    }

    /// With these parameters as well.
    #[must_use]
    pub fn with<'a>(mut self, more: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        self.0.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
        self
    }

    /// The text of a query.
    #[must_use]
    pub fn text(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "True"))
    }
}

/// Percent-decoding of one path segment; `+` stays.
#[must_use]
pub fn decoded(segment: &str) -> String {
    let escaped = format!("s={}", segment.replace('+', "%2B"));
    let mut pairs = form_urlencoded::parse(escaped.as_bytes());
    pairs.next().map(|(_, text)| text.into_owned()).unwrap_or_default()
}
