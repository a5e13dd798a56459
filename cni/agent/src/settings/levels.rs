// SPDX-License-Identifier: Apache-2.0
//! `--log_output_level`: what is logged of each scope.

use std::collections::BTreeMap;

use protocol::netconf::LogLevel;

use super::kind::{Problem, level};

/// The scope whose level our entry carries to the plugin.
const PLUGIN: &str = "cni-plugin";
/// The scope that a level without one belongs to.
const DEFAULT: &str = "default";
/// The scope that stands for all; what comes after it is not looked at.
const ALL: &str = "all";

/// The levels of the scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    all: Option<LogLevel>,
    scopes: BTreeMap<String, LogLevel>,
}

impl Levels {
    /// Reads `SCOPE:LEVEL,…`; a level alone is that of the scope `default`.
    ///
    /// # Errors
    /// The element that is none.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let mut levels = Self::default();
        for element in text.split(',').filter(|_| !text.is_empty()) {
            let (scope, name) = element.split_once(':').unwrap_or((DEFAULT, element));
            let found = level(name).ok_or_else(|| Problem::Levels(element.to_owned()))?;
            if scope == ALL {
                levels.all = Some(found);
                break;
            }
            levels.scopes.insert(scope.to_owned(), found);
        }
        Ok(levels)
    }

    /// What is logged of a scope of the agent: its own level, else the default one.
    #[must_use]
    pub fn of(&self, scope: &str) -> LogLevel {
        let named = |scope| self.scopes.get(scope).copied();
        self.all.or_else(|| named(scope)).or_else(|| named(DEFAULT)).unwrap_or_default()
    }

    /// What the plugin logs: the default level is not the plugin's.
    #[must_use]
    pub fn of_plugin(&self) -> LogLevel {
        self.all.or_else(|| self.scopes.get(PLUGIN).copied()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (LogLevel, LogLevel, LogLevel) {
        let levels = Levels::parse(text).unwrap();
        (levels.of("repair"), levels.of("cni-agent"), levels.of_plugin())
    }

    #[test]
    fn the_plugin_follows_its_own_scope_and_all() {
        use LogLevel::{Debug, Error, Info, Warn};
        assert_eq!(of(""), (Info, Info, Info));
        assert_eq!(of("debug"), (Debug, Debug, Info));
        assert_eq!(of("default:debug"), (Debug, Debug, Info));
        assert_eq!(of("default:info,cni-plugin:debug"), (Info, Info, Debug));
        assert_eq!(of("cni-plugin:warn"), (Info, Info, Warn));
        assert_eq!(of("cni-agent:debug"), (Info, Debug, Info));
        assert_eq!(of("cni-agent:debug,all:error,cni-plugin:bogus"), (Error, Error, Error));
    }

    #[test]
    fn what_is_no_level_is_named() {
        for text in ["verbose", "default:", "a:b:c", "info,", "default:Info"] {
            assert!(matches!(Levels::parse(text), Err(Problem::Levels(_))), "{text}");
        }
        assert_eq!(Levels::parse("info,x:y"), Err(Problem::Levels("x:y".to_owned())));
    }
}
