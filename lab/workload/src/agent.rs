// SPDX-License-Identifier: Apache-2.0
//! Stands in for the node agent's socket: answers the plugin's questions from files, or misbehaves as told. Each request
//! is a line of the record before it is answered: who has the answer finds the request there.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use cluster::AgentStandIn;
use nix::sys::stat::{Mode, umask};
use protocol::agent::{MAX_LINE, PodKey, Reply, Request, RequestKind, Response, VERSION};
use protocol::pod::PodFacts;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};

use crate::line;

/// Where to listen, what to serve, how to misbehave.
#[derive(Debug, Clone, Args)]
pub struct AgentOptions {
    /// The socket to make.
    #[arg(long)]
    pub socket: PathBuf,
    /// Directory of pods, one file `NAMESPACE_NAME.json` each.
    #[arg(long)]
    pub pods: PathBuf,
    /// File that requests are appended to.
    #[arg(long)]
    pub record: PathBuf,
    /// Behaviour: `serving`, `silent`, `garbage`, `old` or `wrong-uid`.
    #[arg(long, value_parser = |word: &str| serde_json::from_value::<AgentStandIn>(word.into()))]
    pub how: AgentStandIn,
}

/// Serves until it is killed.
pub async fn run(options: &AgentOptions) -> io::Result<()> {
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(&options.socket);
    umask(before);
    let listener = listener?;
    line::announce("ready agent")?;
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let options = options.clone();
            tokio::spawn(async move { serve(stream, &options).await });
        }
    }
}

async fn serve(mut stream: UnixStream, options: &AgentOptions) -> io::Result<()> {
    if stream.peer_cred()?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let text = line::read_within(&mut stream, MAX_LINE as u64).await?;
    record(&options.record, &text)?;
    if options.how == AgentStandIn::Silent {
        // Until the plugin gives up and closes its side.
        return line::read(&mut stream).await.map(drop);
    }
    if options.how == AgentStandIn::Garbage {
        return stream.write_all(b"\0not JSON\n").await;
    }
    let response = match serde_json::from_str::<Request>(&text) {
        Ok(request) if options.how != AgentStandIn::Old => respond(&request.kind, options),
        _ => Response::Unsupported,
    };
    line::write(&mut stream, &Reply { version: VERSION, response }).await
}

/// In one write, so that two requests at once do not mix.
fn record(file: &Path, request: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{request}\n").as_bytes())
}

fn respond(kind: &RequestKind, options: &AgentOptions) -> Response {
    match kind {
        RequestKind::Deleted(_) => Response::Noted,
        RequestKind::Pod(key) => match pod(&options.pods, key) {
            Some(mut pod) if options.how == AgentStandIn::WrongUid => {
                "another".clone_into(&mut pod.metadata.uid);
                Response::Found { pod: Box::new(pod) }
            }
            // An older agent takes a request without UID for one about any pod of that name.
            Some(pod) if key.uid.is_empty() || pod.has_uid(&key.uid) => {
                Response::Found { pod: Box::new(pod) }
            }
            _ => Response::Unknown,
        },
    }
}

fn pod(directory: &Path, key: &PodKey) -> Option<PodFacts> {
    let file = directory.join(format!("{}_{}.json", key.namespace, key.name));
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}
