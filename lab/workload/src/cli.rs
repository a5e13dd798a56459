// SPDX-License-Identifier: Apache-2.0
//! The subcommands and the single-threaded runtime that they run in.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nix::mount::{MsFlags, mount};

use crate::listen::Endpoint;
use crate::proxy::Mode;
use crate::upstream::Interception;
use crate::{
    agent, app, caller, connect, disturb, dns, guest, hand, injector, kernel, line, multus, node, oci, proxy,
    record, sender, translate, wire,
};

/// The environment variable that chooses the proxy's mode where its arguments are an injector's.
pub const PROXY_MODE: &str = "LAB_PROXY_MODE";

/// The processes of the lab's pods.
#[derive(Debug, Parser)]
#[command(name = "workload")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer on ports.
    App {
        /// A port, as `tcp:8080` or `udp:9000`.
        #[arg(long = "listen")]
        endpoints: Vec<Endpoint>,
    },
    /// Open connections from the first instruction on, until killed.
    Sender(sender::SenderOptions),
    /// Open a connection to each sender that asks, until killed.
    Caller,
    /// Connect once, as an init container that fetches something.
    Connect {
        /// Where to, as `10.0.0.1:8080`.
        to: SocketAddr,
    },
    /// Stand in for a virtual machine in the pod.
    Guest {
        /// The pod's interface that leads to it.
        #[arg(long)]
        interface: String,
    },
    /// Stand in for the sidecar proxy. `ISTIO_META_INTERCEPTION_MODE` says how its inbound traffic is caught.
    Proxy {
        /// What to do with captured connections.
        #[arg(long)]
        mode: Option<Mode>,
        /// What an injector writes behind `proxy`: ignored.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Inject pods, as a webhook. Its certificate and key are in the environment.
    Injector(injector::InjectorOptions),
    /// Link this namespace to a router.
    Wire(wire::WireOptions),
    /// Translate addresses as standard input says, and none else.
    Translate,
    /// Stand in for the node agent's socket.
    Agent(agent::AgentOptions),
    /// Stand in for the daemon of Multus thick.
    MultusDaemon(multus::daemon::DaemonOptions),
    /// Run a program on a kernel that lacks something.
    FakeKernel(kernel::KernelOptions),
    /// Carry out the orders on standard input: files, programs, processes and packets of the node.
    Hand {
        /// Root directory of the node.
        #[arg(long, default_value = "/")]
        root: PathBuf,
    },
    /// Change the network namespace as standard input says, which somebody else than the plugin could.
    Disturb,
    /// Be a CNI plugin, and write down what it is called with.
    Record(record::RecordOptions),
    /// Be an OCI runtime that is asked for nothing that the machine refuses.
    OciRuntime(oci::OciOptions),
    /// Be the first process of a node: mount what a node has, reap what nobody waits for.
    Node(node::NodeOptions),
    /// Do nothing until killed.
    Pause {
        /// Where to mount a `/proc` first, which shows the processes of this one's namespace.
        #[arg(long)]
        proc: Option<PathBuf>,
    },
    /// End at once.
    Exit {
        /// The exit code.
        #[arg(default_value_t = 0)]
        code: u8,
    },
}

/// Runs a subcommand.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    // Tracing follows the thread that began it.
    if let Command::FakeKernel(options) = &cli.command {
        return kernel::run(options);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::App { endpoints } => app::run(&endpoints).await?,
            Command::Sender(options) => sender::run(options).await?,
            Command::Caller => caller::run().await?,
            Command::Connect { to } => return Ok(connect::run(to).await?),
            Command::Guest { interface } => guest::run(&interface).await?,
            Command::Proxy { mode, rest: _ } => {
                let mode = mode.unwrap_or_else(mode_of_environment);
                // Before the proxy says that it is ready.
                dns::serve(mode)?;
                proxy::run(mode, Interception::of_environment()).await?;
            }
            Command::Injector(options) => injector::run(&options).await?,
            Command::Wire(options) => wire::run(&options).await?,
            Command::Translate => translate::run()?,
            Command::Agent(options) => agent::run(&options).await?,
            Command::MultusDaemon(options) => multus::daemon::run(&options).await?,
            Command::FakeKernel(options) => return kernel::run(&options),
            Command::Hand { root } => hand::run(root).await?,
            Command::Disturb => disturb::run().await?,
            Command::Record(options) => return record::run(&options),
            Command::OciRuntime(options) => oci::run(&options)?,
            Command::Node(options) => node::run(&options).await?,
            Command::Pause { proc } => pause(proc.as_deref()).await?,
            Command::Exit { code } => return Ok(ExitCode::from(code)),
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn mode_of_environment() -> Mode {
    match std::env::var(PROXY_MODE) {
        Ok(mode) if mode == "sink" => Mode::Sink,
        _ => Mode::Forward,
    }
}

async fn pause(proc: Option<&Path>) -> io::Result<()> {
    if let Some(at) = proc {
        mount_proc(at)?;
    }
    line::announce("ready pause")?;
    pending().await
}

fn mount_proc(at: &Path) -> nix::Result<()> {
    let fixed = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), at, Some("proc"), fixed, None::<&str>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_injected_proxys_arguments_are_taken() {
        let line = "workload proxy sidecar --domain $(POD_NAMESPACE).svc --proxyLogLevel=warning";
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        assert!(matches!(cli.command, Command::Proxy { mode: None, .. }));
        let cli = Cli::try_parse_from(["workload", "proxy", "--mode", "sink"]).unwrap();
        assert!(matches!(cli.command, Command::Proxy { mode: Some(Mode::Sink), .. }));
    }
}
