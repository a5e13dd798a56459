// SPDX-License-Identifier: Apache-2.0
//! `lab-net`, the lab's base CNI plugin: a veth pair, addresses of one or both families, routes through the node; the same
//! again for each further network that a pod asks for. The node is the network namespace that the plugin is started in.
//!
//! | module | noun |
//! |---|---|
//! | [`conf`] | the network configuration and the call's environment |
//! | [`ipam`] | who holds which address |
//! | [`leave`] | what else it leaves in the pod |
//! | [`link`] | the veth pair, its addresses and routes |
//! | [`result`] | the result in every version of the specification |

pub mod conf;
pub mod ipam;
pub mod leave;
pub mod link;
pub mod result;

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};

use conf::{Call, CniCommand, Conf};
use ipam::Store;
use link::Network;
use result::Attached;

/// The plugin's `type`, and the file name that makes this binary the plugin.
pub const NAME: &str = "lab-net";

/// Failure, with the specification's code for it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing or malformed variable.
    #[error("{0}")]
    Environment(String),
    /// Malformed configuration.
    #[error("failed to read the network configuration: {0}")]
    Configuration(String),
    /// Unsupported version.
    #[error("cniVersion {0:?} is not supported")]
    Version(String),
    /// Failed operation on a file or a namespace.
    #[error("failed to {0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The kernel rejected a link, an address or a route.
    #[error("failed to {0}: {1}")]
    Netlink(&'static str, #[source] rtnetlink::Error),
    /// An address did not become usable.
    #[error(transparent)]
    Own(#[from] crate::own::Error),
    /// No free address in a range.
    #[error("range {0} is exhausted")]
    Exhausted(String),
    /// CHECK found the pod's network different from the result.
    #[error("{0} is gone from the pod")]
    Missing(String),
}

impl Error {
    fn code(&self) -> u32 {
        match self {
            Self::Version(_) => 1,
            Self::Environment(_) => 4,
            Self::Io(..) => 5,
            Self::Configuration(_) => 7,
            Self::Netlink(..) | Self::Own(_) => 100,
            Self::Exhausted(_) => 11,
            Self::Missing(_) => 101,
        }
    }
}

/// Runs the plugin on this process' environment and standard streams.
pub fn main() -> ExitCode {
    let mut text = Vec::new();
    match io::stdin().read_to_end(&mut text) {
        Ok(_) => serve(&text),
        Err(error) => {
            eprintln!("{NAME}: failed to read standard input: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the plugin on this process' environment and this configuration.
pub fn serve(text: &[u8]) -> ExitCode {
    let (output, code) = match answer(text) {
        Ok(output) => (output, ExitCode::SUCCESS),
        Err(error) => (Some(json!({ "code": error.code(), "msg": error.to_string() })), ExitCode::FAILURE),
    };
    if let Some(output) = output
        && let Err(error) = writeln!(io::stdout().lock(), "{output}")
    {
        eprintln!("{NAME}: failed to print: {error}");
        return ExitCode::FAILURE;
    }
    code
}

fn answer(text: &[u8]) -> Result<Option<Value>, Error> {
    let call = Call::from_environment(|name| std::env::var(name).ok())?;
    if call.command == CniCommand::Version {
        return Ok(Some(result::versions()));
    }
    let conf = Conf::parse(text)?;
    let store = Store::new(&conf.state_dir);
    match call.command {
        CniCommand::Add => add(&call, &conf, &store).map(Some),
        CniCommand::Del => del(&call, &conf, &store).map(|()| None),
        CniCommand::Check => check(&call, &conf).map(|()| None),
        CniCommand::Gc => store.keep_only(&conf.attachments()).map(|()| None),
        CniCommand::Status | CniCommand::Version => Ok(None),
    }
}

fn add(call: &Call, conf: &Conf, store: &Store) -> Result<Value, Error> {
    match attach(call, conf, store).and_then(|attached| leave::leave(call, conf).map(|()| attached)) {
        Ok(attached) => Ok(result::render(conf, &attached)),
        Err(error) => {
            store.release(&call.attachment())?;
            Err(error)
        }
    }
}

/// Wires the pod's first network, then its additional ones.
fn attach(call: &Call, conf: &Conf, store: &Store) -> Result<Vec<Attached>, Error> {
    let first = (
        call.clone(),
        conf.wanted(),
        Network { number: conf.number, reach: &conf.reach, detects: conf.detects },
    );
    let further = (1..).zip(conf.further()).map(|(number, (name, reach))| {
        let call = Call { ifname: name.to_owned(), ..call.clone() };
        (call, conf.wanted_from(reach), Network { number, reach, detects: conf.detects })
    });
    let runtime = runtime()?;
    let all = std::iter::once(first).chain(further);
    all.map(|(own, wanted, network)| {
        // All of a pod's addresses go together, whichever interface has them.
        let addresses = store.allocate(&wanted, &call.attachment())?;
        let wired = runtime.block_on(link::connect(&own, &addresses, conf.mtu, network))?;
        Ok(Attached { call: own, network: network.number, addresses, wired })
    })
    .collect()
}

fn del(call: &Call, conf: &Conf, store: &Store) -> Result<(), Error> {
    let runtime = runtime()?;
    for (name, _) in conf.further() {
        runtime.block_on(link::disconnect(&Call { ifname: name.to_owned(), ..call.clone() }))?;
    }
    runtime.block_on(link::disconnect(call))?;
    store.release(&call.attachment())
}

fn check(call: &Call, conf: &Conf) -> Result<(), Error> {
    let expected = result::addresses(conf.prev_result.as_ref().unwrap_or(&Value::Null));
    let found = runtime()?.block_on(link::addresses(call))?;
    match expected.into_iter().find(|address| !found.contains(address)) {
        Some(missing) => Err(Error::Missing(missing.to_string())),
        None => Ok(()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| Error::Io("start", error))
}
