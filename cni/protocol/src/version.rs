// SPDX-License-Identifier: Apache-2.0
//! The versions of the CNI specification that we speak, their order, and the answer to `VERSION`.

use std::fmt;
use std::str::FromStr;

/// A version of the CNI specification that we speak. Ordered from old to new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CniVersion {
    /// 0.1.0; what a configuration without `cniVersion` means.
    V0_1_0,
    /// 0.2.0
    V0_2_0,
    /// 0.3.0: results list interfaces and addresses.
    V0_3_0,
    /// 0.3.1
    V0_3_1,
    /// 0.4.0: adds CHECK.
    V0_4_0,
    /// 1.0.0: an address no longer names its family.
    V1_0_0,
    /// 1.1.0: adds STATUS and GC.
    V1_1_0,
}

/// Supported versions, oldest first.
pub const SUPPORTED: [CniVersion; 7] = [
    CniVersion::V0_1_0,
    CniVersion::V0_2_0,
    CniVersion::V0_3_0,
    CniVersion::V0_3_1,
    CniVersion::V0_4_0,
    CniVersion::V1_0_0,
    CniVersion::V1_1_0,
];

/// An unsupported version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unsupported CNI version {0:?}")]
pub struct UnsupportedVersion(pub String);

impl CniVersion {
    /// The version's text, as in `cniVersion`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }
}

impl fmt::Display for CniVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for CniVersion {
    type Err = UnsupportedVersion;

    /// The empty string is 0.1.0: the key did not exist before 0.2.0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::V0_1_0);
        }
        SUPPORTED.into_iter().find(|v| v.as_str() == text).ok_or_else(|| UnsupportedVersion(text.to_owned()))
    }
}

/// The texts of [`SUPPORTED`] with `separator` between them.
#[must_use]
pub fn supported_list(separator: &str) -> String {
    SUPPORTED.map(CniVersion::as_str).join(separator)
}

/// Reply to `VERSION`: one line of JSON, ended by a newline.
#[must_use]
pub fn version_reply() -> String {
    let newest = SUPPORTED[SUPPORTED.len() - 1];
    format!("{{\"cniVersion\":\"{newest}\",\"supportedVersions\":[\"{}\"]}}\n", supported_list("\",\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_text_and_parse_agree() {
        assert!(SUPPORTED.is_sorted());
        for version in SUPPORTED {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        assert_eq!("".parse(), Ok(CniVersion::V0_1_0));
    }

    #[test]
    fn near_misses_are_not_versions() {
        for text in ["1.0", "1.2.0", "0.0.9", "v1.0.0", " 1.0.0", "1.0.0 ", "x", "1.0.0-rc1"] {
            assert_eq!(text.parse::<CniVersion>(), Err(UnsupportedVersion(text.to_owned())));
        }
    }

    #[test]
    fn version_reply_is_the_specified_line() {
        assert_eq!(
            version_reply(),
            "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n"
        );
    }
}
