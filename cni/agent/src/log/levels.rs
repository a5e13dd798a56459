// SPDX-License-Identifier: Apache-2.0
//! From which level on a scope is heard.

use std::collections::BTreeMap;
use std::str::FromStr;

/// How grave a line is. `Off` is for scopes that are not heard at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For whoever looks for a defect.
    Debug,
    /// A decision.
    #[default]
    Info,
    /// Somebody should look at it.
    Warn,
    /// Something that should be done is not.
    Error,
    /// No line has it.
    Off,
}

impl Level {
    /// Its name in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Off => "none",
        }
    }

    /// That of an event; `None` for traces, which nobody can ask for.
    pub(super) fn of(level: &tracing::Level) -> Option<Self> {
        match *level {
            tracing::Level::ERROR => Some(Self::Error),
            tracing::Level::WARN => Some(Self::Warn),
            tracing::Level::INFO => Some(Self::Info),
            tracing::Level::DEBUG => Some(Self::Debug),
            tracing::Level::TRACE => None,
        }
    }
}

impl FromStr for Level {
    type Err = ();

    /// `fatal` is a level of upstream's above errors, which nothing here has.
    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" => Self::Warn,
            "error" => Self::Error,
            "fatal" | "none" => Self::Off,
            _ => return Err(()),
        })
    }
}

/// Why `--log_output_level` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "read log level `{0}`: it is <scope>:<level> or <level>, levels are debug, info, warn, error, fatal and none"
)]
pub struct LevelsError(String);

/// The level of each scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    default: Level,
    scopes: BTreeMap<String, Level>,
}

impl Levels {
    /// Whether a line of `level` in `scope` is written. A library's scope is a path in a crate; the crate's name stands for all of its paths.
    #[must_use]
    pub fn shows(&self, scope: &str, level: Level) -> bool {
        let named = |name: &str| self.scopes.get(name).copied();
        let least = match scope.split_once("::") {
            None => named(scope).unwrap_or(self.default),
            Some((library, _)) => named(library).unwrap_or(self.default.max(Level::Warn)),
        };
        level >= least && level != Level::Off
    }
}

impl FromStr for Levels {
    type Err = LevelsError;

    /// `default:info,cni-plugin:debug`; a level alone is the default's, and `all` is every scope's.
    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let mut levels = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (scope, level) = part.split_once(':').unwrap_or(("default", part));
            let level = level.trim().parse().map_err(|()| LevelsError(part.to_owned()))?;
            match scope.trim() {
                "" => return Err(LevelsError(part.to_owned())),
                "default" => levels.default = level,
                "all" => return Ok(Self { default: level, scopes: BTreeMap::new() }),
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
