// SPDX-License-Identifier: Apache-2.0
//! One call from start to end: what the runtime wants, which command does it, and what it gets to read. The commands return
//! a text or an error; only this file writes to stdout, once.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use protocol::env::{self, Command, EnvError};
use protocol::error::{CniError, Code};
use protocol::log::AddEnd;
use protocol::netconf::Header;
use protocol::version;

use crate::agent::TELL_LIMIT;
use crate::context::{Call, Exit};
use crate::log::Log;
use crate::log_out::{self, SOCKET_LIMIT};
use crate::world::World;
use crate::{add, check, del, diagnose, status};

/// Enough for an ordinary configuration with its `prevResult`. Each page that is touched costs microseconds.
const CONFIG_SIZE: usize = 4 * 1024;

/// Does what the environment says.
pub fn run(world: World<'_>) -> Exit {
    let invocation = env::parse(world.env);
    if let Ok(None) = &invocation
        && let [command, words @ ..] = (world.args)().as_slice()
        && command == "diagnose"
    {
        return diagnose::run(world, words);
    }
    let World { env, args: _, stdin, stdout, stderr, clock, agent, api, kernel } = world;
    let invocation = match invocation {
        Ok(Some(invocation)) => invocation,
        Ok(None) => return about(stderr),
        Err(error) => {
            let error = first_mistake(error, stdin);
            Log::new(stderr, clock).error("malformed call", &[("error", &error)]);
            return print(stdout, Err(&error));
        }
    };
    if invocation.command == Command::Version {
        return print(stdout, Ok(&version::version_reply()));
    }
    let log = Log::new(stderr, clock);
    let mut call = Call::new(invocation, (env, clock), (agent, api, kernel), log);
    let mut text = Vec::with_capacity(CONFIG_SIZE);
    let outcome = match stdin.read_to_end(&mut text) {
        Ok(_) => {
            // Later allocations follow it, on pages that are in use.
            text.shrink_to_fit();
            command(&mut call, &text)
        }
        Err(error) if call.invocation.command == Command::Del => {
            call.log.warn("DEL without a configuration", &[("reason", &error)]);
            Ok(String::new())
        }
        Err(error) => Err(unreadable(&error)),
    };
    if let Err(error) = &outcome {
        if call.invocation.command == Command::Add {
            call.ends(AddEnd::Failed);
        }
        let (command, code) = (call.invocation.command, error.code);
        call.log.error("call failed", &[("command", &command), ("code", &code), ("error", error)]);
    }
    if let Some(outlets) = &call.outlets {
        let quick = matches!(call.invocation.command, Command::Check | Command::Del);
        log_out::flush(&call.log, outlets, clock, if quick { TELL_LIMIT } else { SOCKET_LIMIT });
    }
    print(stdout, outcome.as_deref())
}

/// The mistake that the CNI library reports of a malformed call: a configuration without a name goes before an unknown command, and
/// versions mean nothing to that.
fn first_mistake(error: EnvError, stdin: &mut dyn Read) -> CniError {
    let unknown = match error {
        EnvError::UnknownCommand(error) => error,
        EnvError::Malformed(error) => return error,
    };
    let mut text = Vec::new();
    match stdin.read_to_end(&mut text) {
        Ok(_) => Header::check_name(&text).err().unwrap_or(unknown),
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &io::Error) -> CniError {
    CniError::new(Code::IO, format!("error reading from stdin: {error}"))
}

fn command(call: &mut Call<'_>, stdin: &[u8]) -> Result<String, CniError> {
    // ADD reads the whole configuration, which includes the header, and every version knows ADD.
    if call.invocation.command == Command::Add {
        return add::run(call, stdin);
    }
    if call.invocation.command == Command::Del {
        // Whoever cannot delete a pod's sandbox tries for ever: a name that ADD would refuse, or a version that comes after ours,
        // must not be the reason.
        Header::require_name(stdin)?;
    } else {
        Header::parse(stdin, call.invocation.command)?;
    }
    match call.invocation.command {
        Command::Check => check::run(call, stdin),
        Command::Del => Ok(del::run(call, stdin)),
        Command::Status => status::run(call, stdin),
        // Rules live in namespaces and die with them: there is nothing of ours to collect. The others never get here.
        Command::Gc | Command::Add | Command::Version => Ok(String::new()),
    }
}

fn about(stderr: &mut dyn Write) -> Exit {
    let supported = version::supported_list(", ");
    let about = format!(
        "CNI plugin istio-cni {}\nCNI protocol versions supported: {supported}\n",
        env!("CARGO_PKG_VERSION")
    );
    // Whoever asked and does not listen is not served by an error.
    let _ = stderr.write_all(about.as_bytes());
    Exit::Success
}

fn print(stdout: &mut dyn Write, outcome: Result<&str, &CniError>) -> Exit {
    let (text, exit) = match outcome {
        Ok(text) => (Cow::Borrowed(text), Exit::Success),
        Err(error) => (Cow::Owned(error.to_json()), Exit::Failure),
    };
    match stdout.write_all(text.as_bytes()) {
        Ok(()) => exit,
        // The runtime did not get the result: it must not take silence for success.
        Err(_) => Exit::Failure,
    }
}

#[cfg(test)]
mod tests;
