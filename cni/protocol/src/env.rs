// SPDX-License-Identifier: Apache-2.0
//! The environment of a CNI call: which command, for which container. Decides what is missing or malformed; reads the
//! variables through a function, so that no process environment is needed.

use std::fmt;
use std::path::PathBuf;

use crate::error::{CniError, Code};
use crate::name;

/// CNI command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach it. May come twice, and for containers never added.
    Del,
    /// Is the container still attached as it should be?
    Check,
    /// Forget the attachments that are not in the list of valid ones.
    Gc,
    /// Could an ADD be served now?
    Status,
    /// VERSION: supported versions of the specification.
    Version,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 6] = [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version];

    /// The command's spelling in `CNI_COMMAND`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    /// The variables that must be set and not empty, in the order in which they are reported.
    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Self::Gc | Self::Status => &["CNI_PATH"],
            Self::Version => &[],
        }
    }

    /// True if the command is about one container on one interface.
    const fn has_attachment(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Permission to work in the network namespace that the plugin runs in (`CNI_NETNS_OVERRIDE`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NetnsOverride {
    /// `CNI_NETNS` naming the plugin's own namespace is an error, code 8.
    #[default]
    Refuse,
    /// Permitted by the operator.
    Allow,
}

/// One call of the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// `CNI_COMMAND`
    pub command: Command,
    /// `CNI_CONTAINERID`; checked for ADD, DEL and CHECK, whatever was given for the others.
    pub container_id: String,
    /// `CNI_NETNS`; always there for ADD and CHECK.
    pub netns: Option<PathBuf>,
    /// `CNI_IFNAME`; checked for ADD, DEL and CHECK, whatever was given for the others.
    pub ifname: String,
    /// `CNI_ARGS`, not yet parsed (see [`crate::args::CniArgs`]).
    pub args: String,
    /// `CNI_NETNS_OVERRIDE`
    pub netns_override: NetnsOverride,
}

/// A call that cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvError {
    /// `CNI_COMMAND` is none of [`Command::ALL`]. A mistake in the configuration goes before it.
    UnknownCommand(CniError),
    /// A variable is missing or malformed.
    Malformed(CniError),
}

impl From<CniError> for EnvError {
    fn from(error: CniError) -> Self {
        Self::Malformed(error)
    }
}

/// Reads a call from the environment. `Ok(None)`: `CNI_COMMAND` is missing or empty, so a person wants to know what this
/// is. All missing variables are in one error; an unknown command is an error, too, whatever else is set.
///
/// # Errors
/// With [`Code::INVALID_ENVIRONMENT`].
pub fn parse(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Invocation>, EnvError> {
    let read = |name: &str| get(name).unwrap_or_default();
    let text = read("CNI_COMMAND");
    if text.is_empty() {
        return Ok(None);
    }
    let Some(command) = Command::ALL.into_iter().find(|c| c.as_str() == text) else {
        return Err(EnvError::UnknownCommand(invalid(format!("unknown CNI_COMMAND: {text}"), "")));
    };
    let missing: Vec<_> = command.required().iter().copied().filter(|name| read(name).is_empty()).collect();
    if !missing.is_empty() {
        return Err(invalid(format!("required env variables [{}] missing", missing.join(",")), "").into());
    }
    let (container_id, ifname) = (read("CNI_CONTAINERID"), read("CNI_IFNAME"));
    if command.has_attachment() {
        check_container_id(&container_id)?;
        check_ifname(&ifname)?;
    }
    Ok(Some(Invocation {
        command,
        container_id,
        netns: Some(read("CNI_NETNS")).filter(|path| !path.is_empty()).map(PathBuf::from),
        ifname,
        args: read("CNI_ARGS"),
        netns_override: netns_override(&read("CNI_NETNS_OVERRIDE")),
    }))
}

fn netns_override(text: &str) -> NetnsOverride {
    if text == "1" || text.eq_ignore_ascii_case("true") {
        NetnsOverride::Allow
    } else {
        NetnsOverride::Refuse
    }
}

fn check_container_id(id: &str) -> Result<(), CniError> {
    if name::is_valid(id) { Ok(()) } else { Err(invalid("invalid characters in containerID", id)) }
}

/// The kernel's own rule for interface names (`dev_valid_name`).
fn check_ifname(ifname: &str) -> Result<(), CniError> {
    /// `IFNAMSIZ` less the terminating zero.
    const LONGEST: usize = 15;
    if ifname.len() > LONGEST {
        return Err(invalid("interface name is too long", format!("at most {LONGEST} bytes: {ifname}")));
    }
    if ifname == "." || ifname == ".." {
        return Err(invalid("interface name is . or ..", ""));
    }
    if ifname.contains(|c: char| c == '/' || c == ':' || c.is_whitespace()) {
        return Err(invalid("interface name contains / or : or whitespace characters", ifname));
    }
    Ok(())
}

fn invalid(msg: impl Into<String>, details: impl Into<String>) -> CniError {
    CniError::new(Code::INVALID_ENVIRONMENT, msg).with_details(details)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Variables = BTreeMap<&'static str, &'static str>;

    fn all(command: &'static str) -> Variables {
        BTreeMap::from([
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c-1_x.2"),
            ("CNI_NETNS", "/var/run/netns/x"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
        ])
    }

    fn read(variables: &Variables) -> Result<Option<Invocation>, EnvError> {
        parse(&|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    fn message(variables: &Variables) -> String {
        let (EnvError::UnknownCommand(error) | EnvError::Malformed(error)) = read(variables).unwrap_err();
        assert_eq!(error.code, Code::INVALID_ENVIRONMENT);
        error.msg
    }

    #[test]
    fn every_command_is_known_by_its_name_only() {
        for command in Command::ALL {
            assert_eq!(read(&all(command.as_str())).unwrap().unwrap().command, command);
        }
        for text in ["add", " ADD", "NOPE", "STATUSES"] {
            assert_eq!(message(&all(text)), format!("unknown CNI_COMMAND: {text}"));
            assert_eq!(
                message(&Variables::from([("CNI_COMMAND", text)])),
                format!("unknown CNI_COMMAND: {text}")
            );
        }
    }

    #[test]
    fn without_a_command_it_is_a_person_who_asks() {
        assert_eq!(read(&Variables::new()), Ok(None));
        assert_eq!(read(&all("")), Ok(None));
    }

    #[test]
    fn all_missing_variables_are_in_one_message() {
        let only = |command| Variables::from([("CNI_COMMAND", command), ("CNI_IFNAME", "")]);
        for command in ["ADD", "CHECK"] {
            assert_eq!(
                message(&only(command)),
                "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing"
            );
        }
        assert_eq!(
            message(&only("DEL")),
            "required env variables [CNI_CONTAINERID,CNI_IFNAME,CNI_PATH] missing"
        );
        for command in ["GC", "STATUS"] {
            assert_eq!(message(&only(command)), "required env variables [CNI_PATH] missing");
        }
        assert!(read(&only("VERSION")).is_ok());
    }

    #[test]
    fn names_are_checked_where_they_are_used() {
        for id in ["-a", "a b", "a/b", "\u{fc}", ".a", "_"] {
            let mut variables = all("DEL");
            variables.insert("CNI_CONTAINERID", id);
            assert_eq!(message(&variables), "invalid characters in containerID", "{id}");
            variables.insert("CNI_COMMAND", "STATUS");
            assert!(read(&variables).is_ok());
        }
        for ifname in [".", "..", "a/b", "a:b", "a b", "a\u{a0}b", "aaaaaaaaaaaaaaaa"] {
            let mut variables = all("ADD");
            variables.insert("CNI_IFNAME", ifname);
            assert!(message(&variables).starts_with("interface name "), "{ifname}");
        }
        let mut longest = all("ADD");
        longest.insert("CNI_IFNAME", "aaaaaaaaaaaaaaa");
        assert_eq!(read(&longest).unwrap().unwrap().ifname.len(), 15);
    }

    #[test]
    fn del_comes_without_a_namespace() {
        let mut variables = all("DEL");
        assert_eq!(read(&variables).unwrap().unwrap().netns, Some(PathBuf::from("/var/run/netns/x")));
        variables.insert("CNI_NETNS", "");
        assert_eq!(read(&variables).unwrap().unwrap().netns, None);
    }

    #[test]
    fn the_override_is_one_or_true() {
        for (text, want) in [
            ("1", NetnsOverride::Allow),
            ("true", NetnsOverride::Allow),
            ("TrUe", NetnsOverride::Allow),
            ("", NetnsOverride::Refuse),
            ("0", NetnsOverride::Refuse),
            ("yes", NetnsOverride::Refuse),
        ] {
            let mut variables = all("ADD");
            variables.insert("CNI_NETNS_OVERRIDE", text);
            assert_eq!(read(&variables).unwrap().unwrap().netns_override, want, "{text}");
        }
    }
}
