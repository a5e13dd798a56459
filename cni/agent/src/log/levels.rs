// SPDX-License-Identifier: Apache-2.0
//! From which level on a scope is heard.

use std::collections::BTreeMap;
use std::str::FromStr;

use protocol::log::Level;
use protocol::netconf::LogLevel;

/// Level of an event; `None` for TRACE, which cannot be enabled.
pub(super) fn of_event(level: &tracing::Level) -> Option<Level> {
    match *level {
        tracing::Level::ERROR => Some(Level::Error),
        tracing::Level::WARN => Some(Level::Warn),
        tracing::Level::INFO => Some(Level::Info),
        tracing::Level::DEBUG => Some(Level::Debug),
        tracing::Level::TRACE => None,
    }
}

/// Malformed `--log_output_level`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to read log level `{0}`: it is <scope>:<level> or <level>, levels are debug, info, warn, error, fatal and none"
)]
pub struct LevelsError(String);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    default: LogLevel,
    scopes: BTreeMap<String, LogLevel>,
}

/// The plugin's scope: its level is part of our entry.
const PLUGIN: &str = "cni-plugin";

impl Levels {
    /// The plugin's level. The default level does not apply to it.
    #[must_use]
    pub fn of_plugin(&self) -> LogLevel {
        self.scopes.get(PLUGIN).copied().unwrap_or_default()
    }

    /// True if a line of `level` in `scope` is written. A library's scope is a path in a crate; the crate's name stands for all of its
    /// paths.
    #[must_use]
    pub fn shows(&self, scope: &str, level: Level) -> bool {
        let named = |name: &str| self.scopes.get(name).copied();
        let least = match scope.split_once("::") {
            None => named(scope).unwrap_or(self.default),
            Some((library, _)) => named(library).unwrap_or(self.default.max(LogLevel::Warn)),
        };
        level.reaches(least)
    }
}

impl FromStr for Levels {
    type Err = LevelsError;

    /// `default:info,cni-plugin:debug`; a level alone is the default's, and `all` is every scope's.
    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let mut levels = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (scope, level) = part.split_once(':').unwrap_or(("default", part));
            let level = LogLevel::from_text(level.trim()).ok_or_else(|| LevelsError(part.to_owned()))?;
            match scope.trim() {
                "" => return Err(LevelsError(part.to_owned())),
                "default" => levels.default = level,
                "all" => return Ok(Self { default: level, scopes: [(PLUGIN.to_owned(), level)].into() }),
                scope => drop(levels.scopes.insert(scope.to_owned(), level)),
            }
        }
        Ok(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_follows_its_own_scope_and_all() {
        let of = |text: &str| text.parse::<Levels>().unwrap().of_plugin();
        assert_eq!(
            (of(""), of("debug"), of("default:debug")),
            (LogLevel::Info, LogLevel::Info, LogLevel::Info)
        );
        assert_eq!(
            (of("default:info,cni-plugin:debug"), of("cni-plugin:warn")),
            (LogLevel::Debug, LogLevel::Warn)
        );
        assert_eq!(of("cni-agent:debug,all:error,cni-plugin:debug"), LogLevel::Error);
    }

    #[test]
    fn a_scope_has_its_own_level_or_the_defaults() {
        let levels: Levels = "default:warn, cni-plugin:debug,repair:none,kube_client:info".parse().unwrap();
        for (scope, level, shown) in [
            ("cni-agent", Level::Info, false),
            ("cni-agent", Level::Warn, true),
            ("cni-plugin", Level::Debug, true),
            ("repair", Level::Error, false),
            ("kube_client::client", Level::Info, true),
            ("hyper::proto", Level::Info, false),
            ("hyper::proto", Level::Warn, true),
        ] {
            assert_eq!(levels.shows(scope, level), shown, "{scope} {level:?}");
        }
    }

    #[test]
    fn libraries_are_heard_from_warnings_on_whatever_the_default() {
        let levels: Levels = "debug".parse().unwrap();
        assert!(levels.shows("cni-agent", Level::Debug));
        assert!(!levels.shows("hyper::proto", Level::Info));
    }

    #[test]
    fn all_is_every_scope_and_nonsense_is_named() {
        let levels: Levels = "repair:none,all:error".parse().unwrap();
        assert!(levels.shows("repair", Level::Error) && !levels.shows("cni-agent", Level::Warn));
        assert_eq!("".parse(), Ok(Levels::default()));
        for bad in ["default:loud", "loud", ":info", "a:b:c"] {
            let error = format!("info,{bad}").parse::<Levels>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }
}
