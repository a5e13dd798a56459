// SPDX-License-Identifier: Apache-2.0
//! Command line and environment before validation: each value as text, with its origin. The environment is read first and the command line
//! wins; of several variables the last one that can be read wins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use redirect::go::parse_bool;

use crate::flag::{ALL, Flag, Kind};
use crate::go::{parse_duration, parse_number};

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagOrigin {
    Default,
    Env(String),
    Flag,
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Raw text; a bare switch reads `true`.
    pub text: String,
    pub origin: FlagOrigin,
}

/// A malformed variable, which is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    pub variable: String,
    pub value: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "environment variable {} is ignored: {:?} cannot be read", self.variable, self.value)
    }
}

/// Values of all flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagValues {
    values: BTreeMap<&'static str, Value>,
    /// Malformed variables.
    pub ignored: Vec<Ignored>,
    /// Positional arguments, which are ignored.
    pub stray: Vec<String>,
}

impl FlagValues {
    /// Reads a command line (without the program's name) and the environment.
    ///
    /// # Errors
    /// A command line that cannot be read, or one that asks for help; the error knows its text.
    pub fn read(
        command: Command,
        arguments: impl IntoIterator<Item = OsString>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Self, clap::ArgMatches), clap::Error> {
        let program = OsString::from(command.get_name().to_owned());
        let mut matches = command.try_get_matches_from(std::iter::once(program).chain(arguments))?;
        let mut ignored = Vec::new();
        let mut values = BTreeMap::new();
        for flag in ALL {
            let mut value = Value { text: flag.default.to_owned(), origin: FlagOrigin::Default };
            for variable in flag.variables() {
                match env(&variable) {
                    Some(text) if flag.kind.check(&text).is_ok() => {
                        value = Value { text, origin: FlagOrigin::Env(variable) }
                    }
                    Some(text) => ignored.push(Ignored { variable, value: text }),
                    None => {}
                }
            }
            if matches.value_source(flag.name) == Some(ValueSource::CommandLine)
                && let Some(text) = matches.remove_one::<String>(flag.name)
            {
                value = Value { text, origin: FlagOrigin::Flag };
            }
            values.insert(flag.name, value);
        }
        let stray = matches.try_remove_many::<String>(STRAY).ok().flatten();
        Ok((Self { values, ignored, stray: stray.into_iter().flatten().collect() }, matches))
    }

    #[must_use]
    pub fn value(&self, flag: &'static Flag) -> Value {
        let default = || Value { text: flag.default.to_owned(), origin: FlagOrigin::Default };
        self.values.get(flag.name).cloned().unwrap_or_else(default)
    }

    #[must_use]
    pub fn text(&self, flag: &'static Flag) -> &str {
        self.values.get(flag.name).map_or(flag.default, |value| value.text.as_str())
    }

    /// True if a switch is on.
    #[must_use]
    pub fn is_on(&self, flag: &'static Flag) -> bool {
        parse_bool(self.text(flag)) == Ok(true)
    }
}

impl Kind {
    fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Text => Ok(()),
            Self::Bool => parse_bool(text).map(drop).map_err(|error| error.to_string()),
            Self::Number => parse_number(text).map(drop).map_err(|error| error.to_string()),
            Self::Duration => parse_duration(text).map(drop).map_err(|error| error.to_string()),
        }
    }
}

impl Flag {
    /// The flag as clap knows it. Values are taken as Go's library takes them: an argument that begins with a hyphen is a value
    /// where one is due, a switch takes one only behind `=`, and of several the last counts.
    fn arg(&'static self) -> Arg {
        let mut help = self.help.to_owned();
        if let Some(variables) = self.variables().into_iter().reduce(|all, one| format!("{all}, {one}")) {
            help.push_str(&format!(" [env: {variables}]"));
        }
        if !matches!(self.default, "" | "false") {
            help.push_str(&format!(" [default: {}]", self.default));
        }
        let kind = self.kind;
        let check = move |text: &str| kind.check(text).map(|()| text.to_owned());
        let arg = Arg::new(self.name).long(self.name).help(help).action(ArgAction::Set).value_parser(check);
        let arg = match self.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        match self.kind {
            Kind::Bool => {
                arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
            }
            Kind::Text => arg.allow_hyphen_values(true).value_name("TEXT"),
            Kind::Number => arg.allow_hyphen_values(true).value_name("PORT"),
            Kind::Duration => arg.allow_hyphen_values(true).value_name("DURATION"),
        }
    }
}

const STRAY: &str = "stray";

#[must_use]
pub fn with_flags(command: Command) -> Command {
    command.args_override_self(true).args(ALL.iter().map(|flag| flag.arg()))
}

/// Accepts positional arguments, as upstream does.
#[must_use]
pub fn with_stray(command: Command) -> Command {
    command.arg(Arg::new(STRAY).num_args(0..).hide(true))
}
