// SPDX-License-Identifier: Apache-2.0
//! A run from start to end: the command line, the surroundings, programming, validation.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Command;
use netfilter::program::{Removed, Request};
use netfilter::{Applied, Wish};
use protocol::error::with_sources;
use protocol::log::Level;
use redirect::generate::ruleset;
use redirect::ruleset::{Dialect, Ruleset};
use redirect::text;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::given::{FlagValues, with_flags, with_stray};
use crate::log::Log;
use crate::settings::{Programming, Settings};
use crate::surroundings::{ProcessEnvironment, Whole};
use crate::world::World;
use crate::{configuration, explain, validation};

/// Variable with the output path of a dry run.
pub const DRY_RUN_FILE: &str = "DRY_RUN_FILE_PATH";

/// Runs with the arguments behind the program's name. The name of the command itself may come first, as in an image whose entry
/// point has several commands.
pub fn run(mut world: World<'_>, arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let mut arguments = arguments.into_iter().peekable();
    arguments.next_if(|first| first == "istio-iptables");
    if arguments.next_if(|first| first == "explain").is_some() {
        return explain::run(&mut world, arguments);
    }
    match FlagValues::read(command(), arguments, world.env) {
        Err(error) => refuse(&mut world, &error),
        Ok((given, _)) => {
            let World { env, file, stdout, stderr, kernel, .. } = world;
            let mut log = Log::new(stderr, &given);
            let mut run = Run {
                given: &given,
                surroundings: ProcessEnvironment { env, file },
                stdout,
                kernel,
                log: &mut log,
            };
            match run.run() {
                Ok(()) => Exit::Success,
                Err(failure) => {
                    let error = format!("failed to {}", with_sources(&failure));
                    log.add(Level::Error, &error, &[]);
                    failure.exit()
                }
            }
        }
    }
}

/// Help goes to standard output with exit code 0.
fn refuse(world: &mut World<'_>, error: &clap::Error) -> Exit {
    let text = error.render();
    if error.use_stderr() {
        // Where standard error is closed, nobody listens.
        let _ = write!(world.stderr, "{text}");
        Exit::BadCommandLine
    } else {
        let _ = write!(world.stdout, "{text}");
        Exit::Success
    }
}

const EXAMPLES: &str = "Examples:
  istio-iptables -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -b '*' -d 15090,15021,15020
  istio-iptables -i '*' -b '*' --dry-run
  istio-iptables -p 15001 -z 15006 -u 1337 --run-validation --skip-rule-apply
  istio-iptables --cleanup-only
  istio-iptables explain --pod pod.yaml --packet 'out tcp 10.1.2.3:443 uid 1000'
";

fn command() -> Command {
    let command = Command::new("istio-iptables")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Redirects a pod's traffic to its proxy, validates that, removes it, and explains it (istio-iptables explain --help)")
        .after_help(format!("{EXAMPLES}\n{}", Exit::TABLE));
    with_stray(with_flags(command))
}

struct Run<'r, 'w> {
    given: &'r FlagValues,
    surroundings: ProcessEnvironment<'w>,
    stdout: &'w mut dyn std::io::Write,
    kernel: &'w dyn crate::world::Kernel,
    log: &'r mut Log<'w>,
}

impl Run<'_, '_> {
    fn run(&mut self) -> Result<(), Failure> {
        for ignored in &self.given.ignored {
            self.log.add(Level::Warn, &ignored.to_string(), &[]);
        }
        for stray in &self.given.stray {
            self.log.add(Level::Warn, "an argument that is no flag means nothing", &[("argument", stray)]);
        }
        let settings = Settings::read(self.given)?;
        settings.check_ports()?;
        if let Some(path) = &settings.netns {
            self.kernel.enter(path)?;
        }
        let dialect = match settings.backend {
            Wish::Auto => Dialect::Iptables,
            Wish::Only(backend) => backend.dialect(),
        };
        let whole = self.surroundings.complete(&settings, dialect, self.kernel.addresses()?)?;
        self.log.add(
            Level::Info,
            "configuration",
            &[("config", &configuration::json(self.given, &whole.given))],
        );
        if let Some(warning) = whole.warning {
            self.log.add(Level::Warn, warning, &[]);
        }
        self.program(&settings, &whole)?;
        if let Some(wanted) = settings.validation {
            validation::run(wanted, &whole, self.log)?;
        }
        Ok(())
    }

    fn program(&mut self, settings: &Settings, whole: &Whole) -> Result<(), Failure> {
        match settings.programming {
            Programming::Skip => self.log.add(Level::Info, "rules are not touched: --skip-rule-apply", &[]),
            Programming::DryRun => self.dry_run(whole, text::dry_run)?,
            Programming::DryCleanUp => self.dry_run(whole, |rules| text::clean_up(&rules))?,
            Programming::Apply => self.apply(settings, whole)?,
            Programming::CleanUp => {
                // Rules of a name that is unknown cannot be there.
                let what = match self.kernel.clean_up(&whole.config, &settings.options)? {
                    Removed::Rules => "rules removed",
                    Removed::Nothing => "there were no rules to remove",
                };
                self.log.add(Level::Info, what, &[]);
            }
        }
        Ok(())
    }

    fn apply(&mut self, settings: &Settings, whole: &Whole) -> Result<(), Failure> {
        let config = if settings.backend.knows_names() {
            whole.given.clone()
        } else {
            whole.names.clone()?;
            whole.config.clone()
        };
        let request = Request { config, wish: settings.backend, recorded: None, options: settings.options };
        let done = self.kernel.program(request)?;
        if let Some(why) = done.unsandboxed {
            self.log.add(Level::Warn, &why.to_string(), &[]);
        }
        let open = done.open.to_string();
        if !open.is_empty() {
            self.log.add(Level::Warn, &open, &[]);
        }
        let what = match done.applied {
            Applied::Created => "rules created",
            Applied::Replaced => "rules replaced",
            Applied::Unchanged => "rules were there already",
        };
        self.log.add(
            Level::Info,
            what,
            &[("backend", &done.choice.backend), ("because", &done.choice.reason)],
        );
        Ok(())
    }

    fn dry_run(&mut self, whole: &Whole, write: fn(Ruleset) -> String) -> Result<(), Failure> {
        let written = write(ruleset(&whole.given)?);
        let path = (self.surroundings.env)(DRY_RUN_FILE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let done = match &path {
            Some(path) => std::fs::write(path, &written),
            None => self.stdout.write_all(written.as_bytes()),
        };
        let path = path.unwrap_or_else(|| "standard output".into());
        done.map_err(|reason| Failure::DryRun { path: path.clone(), reason })?;
        self.log.add(
            Level::Info,
            "rules written down, nothing changed: --dry-run",
            &[("to", &path.display())],
        );
        Ok(())
    }
}
