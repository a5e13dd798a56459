// SPDX-License-Identifier: Apache-2.0
//! Checks of the configuration that every command but VERSION makes, before anything else of it is read.

use crate::env::Command;
use crate::error::{CniError, Code};
use crate::json::{Fields, JsonError};
use crate::name;
use crate::version::{CniVersion, supported_list};

/// Keys of the head.
const KEYS: [&str; 2] = ["name", "cniVersion"];

/// The checked head of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `name` of the network.
    pub name: String,
    /// `cniVersion`; 0.1.0 if there is none.
    pub version: CniVersion,
}

impl Header {
    /// Decodes and checks `name` and `cniVersion` for a command, and nothing else.
    ///
    /// The CNI library compares the version's numbers for a command that came with a version (CHECK, STATUS, GC) before anything else knows it, and a text
    /// without them is malformed to it (`pkg/version`, `GreaterThanOrEqualTo`).
    ///
    /// # Errors
    /// Code 6: not a JSON object, a wrong type, or such a text; 7: no name or a malformed one; 1: a version that we do not speak, or that has no such
    /// command.
    pub fn parse(stdin: &[u8], command: Command) -> Result<Self, CniError> {
        Self::from_fields(&mut fields(stdin, &KEYS)?, command)
    }

    /// Checks `name` alone.
    ///
    /// # Errors
    /// Code 6: not a JSON object, or a wrong type; 7: no name or a malformed one.
    pub fn check_name(stdin: &[u8]) -> Result<(), CniError> {
        checked_name(&mut fields(stdin, &["name"])?).map(drop)
    }

    /// Checks only that there is a configuration: an object with a name, whatever that and everything else is. It is what DEL asks for.
    ///
    /// # Errors
    /// Code 6: not a JSON object; 7: no name.
    pub fn require_name(stdin: &[u8]) -> Result<(), CniError> {
        match fields(stdin, &["name"])?.string("name") {
            Ok(name) if name.is_empty() => Err(missing_name()),
            _ => Ok(()),
        }
    }

    /// Takes the head from a configuration's fields; the order of the checks decides which of two mistakes is reported.
    pub(super) fn from_fields(fields: &mut Fields, command: Command) -> Result<Self, CniError> {
        let name = checked_name(fields)?;
        let text = fields.string("cniVersion").map_err(|error| undecodable(&error))?;
        let since = since(command);
        if since > CniVersion::V0_1_0 && !is_numbers(&text) {
            return Err(CniError::new(Code::DECODING, "failed to parse network configuration")
                .with_details(format!("\"cniVersion\" {text:?} is not one to three numbers")));
        }
        let version = known(&text)?;
        if version >= since {
            return Ok(Self { name, version });
        }
        Err(CniError::new(Code::INCOMPATIBLE_VERSION, format!("config version does not allow {command}"))
            .with_details(format!("config is {version}, {command} needs {since}")))
    }
}

/// The version that a command came with.
fn since(command: Command) -> CniVersion {
    match command {
        Command::Add | Command::Del | Command::Version => CniVersion::V0_1_0,
        Command::Check => CniVersion::V0_4_0,
        Command::Gc | Command::Status => CniVersion::V1_1_0,
    }
}

fn fields(stdin: &[u8], known: &[&str]) -> Result<Fields, CniError> {
    Fields::parse(stdin, known).map_err(|error| undecodable(&error))
}

fn checked_name(fields: &mut Fields) -> Result<String, CniError> {
    let name = fields.string("name").map_err(|error| undecodable(&error))?;
    if name.is_empty() {
        return Err(missing_name());
    }
    if !name::is_valid(&name) {
        return Err(CniError::new(Code::INVALID_CONFIG, "invalid characters found in network name")
            .with_details(name));
    }
    Ok(name)
}

/// True for one to three numbers with dots between them, and for what means the first version.
fn is_numbers(version: &str) -> bool {
    let mut parts = version.splitn(3, '.');
    version.is_empty() || parts.all(|part| part.parse::<i64>().is_ok())
}

fn known(version: &str) -> Result<CniVersion, CniError> {
    version.parse().map_err(|_| {
        let supported = supported_list(", ");
        CniError::new(Code::INCOMPATIBLE_VERSION, "incompatible CNI versions")
            .with_details(format!("config is {version:?}, plugin supports {supported}"))
    })
}

fn missing_name() -> CniError {
    CniError::new(Code::INVALID_CONFIG, "missing network name")
}

/// Error of malformed JSON, or of a value of the wrong type.
pub(super) fn undecodable(error: &JsonError) -> CniError {
    CniError::caused(Code::DECODING, "failed to parse network configuration", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(stdin: &str) -> Result<Header, Code> {
        Header::parse(stdin.as_bytes(), Command::Add).map_err(|error| error.code)
    }

    #[test]
    fn a_config_without_version_is_0_1_0() {
        let header = Header { name: "n".to_owned(), version: CniVersion::V0_1_0 };
        for stdin in
            [r#"{"name":"n"}"#, r#"{"name":"n","cniVersion":""}"#, r#"{"name":"n","cniVersion":null}"#]
        {
            assert_eq!(code(stdin), Ok(header.clone()), "{stdin}");
        }
    }

    #[test]
    fn the_first_mistake_is_reported() {
        for (stdin, want) in [
            ("", Code::DECODING),
            ("\u{feff}{\"name\":\"n\"}", Code::DECODING),
            (r#"{"name":"n"} x"#, Code::DECODING),
            (r#"{"name":7,"cniVersion":"9"}"#, Code::DECODING),
            ("null", Code::INVALID_CONFIG),
            (r#"{"name":"a b","cniVersion":1}"#, Code::INVALID_CONFIG),
            (r#"{"name":"n","cniVersion":1}"#, Code::DECODING),
            (r#"{"name":"n","cniVersion":"1.0"}"#, Code::INCOMPATIBLE_VERSION),
        ] {
            assert_eq!(code(stdin), Err(want), "{stdin}");
        }
    }

    #[test]
    fn commands_that_came_with_a_version_compare_numbers() {
        let code = |stdin: &str| Header::parse(stdin.as_bytes(), Command::Check).map_err(|error| error.code);
        for text in ["x", "v1.0.0", "1.0.0-rc1", "1.0.0.0", "1.", " 1.0.0"] {
            let stdin = format!(r#"{{"name":"n","cniVersion":"{text}"}}"#);
            assert_eq!(code(&stdin), Err(Code::DECODING), "{text}");
        }
        for text in ["9.9.9", "1.0", "", "0.3.1"] {
            let stdin = format!(r#"{{"name":"n","cniVersion":"{text}"}}"#);
            assert_eq!(code(&stdin), Err(Code::INCOMPATIBLE_VERSION), "{text}");
        }
        assert!(code(r#"{"name":"n","cniVersion":"1.0.0"}"#).is_ok());
    }

    #[test]
    fn what_del_asks_for_is_a_configuration() {
        let deep = format!(r#"{{"name":"n","cniVersion":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(Header::require_name(deep.as_bytes()).is_ok(), "what nobody asks for is skipped");
        for stdin in [
            r#"{"name":"n","cniVersion":"9.9.9"}"#,
            r#"{"name":"n","cniVersion":{}}"#,
            r#"{"name":"a b"}"#,
            r#"{"name":7}"#,
        ] {
            assert!(
                Header::parse(stdin.as_bytes(), Command::Add).is_err()
                    && Header::require_name(stdin.as_bytes()).is_ok()
            );
        }
        for (stdin, want) in [
            ("", Code::DECODING),
            ("[]", Code::DECODING),
            ("null", Code::INVALID_CONFIG),
            ("{}", Code::INVALID_CONFIG),
        ] {
            assert_eq!(
                Header::require_name(stdin.as_bytes()).map_err(|error| error.code),
                Err(want),
                "{stdin}"
            );
        }
    }

    #[test]
    fn commands_need_their_versions() {
        use Command::{Add, Check, Del, Gc, Status};
        let parsed = |command, version: CniVersion| {
            Header::parse(format!(r#"{{"name":"n","cniVersion":"{version}"}}"#).as_bytes(), command)
        };
        let allowed = |command, version| parsed(command, version).is_ok();
        for version in crate::version::SUPPORTED {
            assert!(allowed(Add, version) && allowed(Del, version));
            assert_eq!(allowed(Check, version), version >= CniVersion::V0_4_0);
            assert_eq!(allowed(Status, version), version == CniVersion::V1_1_0);
            assert_eq!(allowed(Gc, version), version == CniVersion::V1_1_0);
        }
        let error = parsed(Check, CniVersion::V0_3_1).unwrap_err();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (Code::INCOMPATIBLE_VERSION, "config version does not allow CHECK")
        );
    }
}
