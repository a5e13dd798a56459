// SPDX-License-Identifier: Apache-2.0
//! Multus thick: a shim that the runtime calls, and the daemon that does the work, over HTTP on a socket of the node. ADD waits for a daemon
//! that is away; DEL succeeds whatever the daemon says, and whether it is there or not, so what it did not detach stays (`pkg/server/api` of
//! 4.2.3). The daemon sees what it was shown of the node, and no more.
//!
//! Multus' file is the daemon's: it writes the file when the readiness indicator is there, and removes it at SIGTERM and when the indicator goes.
//! After the latter the real one ends with 2 and is started again.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use super::Call;
use super::conf::Conf;
use super::places::{PLACES, Places};
use super::work::{TIMED_OUT, carry_out};
use crate::line;

/// Name of the socket in its directory.
const SOCKET: &str = "multus.sock";

/// Interval and deadline of the look for the daemon: 0.1 s and 60 of the real one, in the lab's time.
const LOOK_EVERY: Duration = Duration::from_micros(2_500);
const THERE_WITHIN: Duration = Duration::from_millis(60 * 25);

/// Options of the daemon.
#[derive(Debug, Clone, Args)]
pub struct DaemonOptions {
    /// Directory of its socket.
    #[arg(long)]
    directory: PathBuf,
    /// Multus' file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Content of that file.
    #[arg(long, default_value = "{}")]
    configuration: String,
}

/// Multus' file, and what decides whether it is there.
struct OwnFile {
    path: PathBuf,
    content: String,
    /// Readiness indicator file, where the daemon sees it.
    indicator: Option<PathBuf>,
}

impl OwnFile {
    fn of(options: &DaemonOptions, places: &Places) -> io::Result<Option<Self>> {
        let Some(path) = options.file.clone() else { return Ok(None) };
        let conf = Conf::parse(&options.configuration).map_err(io::Error::other)?;
        let indicator = Some(conf.readiness_indicator_file).filter(|file| !file.as_os_str().is_empty());
        let indicator = indicator.map(|file| places.find(&file));
        Ok(Some(Self { path, content: options.configuration.clone(), indicator }))
    }

    fn is_wanted(&self) -> bool {
        self.indicator.as_ref().is_none_or(|file| file.exists())
    }

    /// Brings the file in line with the indicator.
    fn follow(&self) -> io::Result<()> {
        match (self.is_wanted(), self.path.exists()) {
            (true, false) => {
                let new = self.path.with_extension("new");
                fs::write(&new, &self.content)?;
                fs::rename(new, &self.path)
            }
            (false, true) => fs::remove_file(&self.path),
            _ => Ok(()),
        }
    }
}

/// Hands a call to the daemon.
///
/// # Errors
/// The daemon is not there, or says so; never of a DEL.
pub async fn hand_over(call: &Call) -> Result<Value, String> {
    let is_del = call.get("CNI_COMMAND") == "DEL";
    let conf = Conf::parse(&call.configuration)?;
    let socket = Places::of(call.get(PLACES)).find(&conf.daemon_socket_dir.join(SOCKET));
    let within = if is_del { Duration::ZERO } else { THERE_WITHIN };
    let done = match connect(&socket, within).await {
        Ok(stream) => asked(stream, call).await,
        Err(why) => Err(why),
    };
    match done {
        // It has a line for its log, which its configuration sends nowhere.
        Err(_) if is_del => Ok(Value::Null),
        done => done.map_err(|why| format!("CmdAdd (shim): {why}")),
    }
}

/// Connects to the daemon as soon as it is there.
async fn connect(socket: &Path, within: Duration) -> Result<UnixStream, String> {
    let since = Instant::now();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(_) if since.elapsed() >= within => return Err(TIMED_OUT.to_owned()),
            Err(_) => {}
        }
    }
}

/// The daemon's answer.
async fn asked(stream: UnixStream, call: &Call) -> Result<Value, String> {
    let (code, body) = post(stream, call).await.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&body);
    if code != StatusCode::OK {
        return Err(format!("CNI request failed with status {}: '{text}'", code.as_u16()));
    }
    serde_json::from_str(&text).map_err(|error| format!("failed to unmarshal response '{text}': {error}"))
}

async fn post(
    stream: UnixStream,
    call: &Call,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let body = Full::new(Bytes::from(serde_json::to_vec(call)?));
    let request = Request::builder().method(Method::POST).uri("/cni").header("host", "dummy").body(body)?;
    let response = sender.send_request(request).await?;
    let code = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((code, body))
}

/// Serves until SIGTERM.
///
/// # Errors
/// The socket or Multus' file cannot be made.
pub async fn run(options: &DaemonOptions) -> io::Result<()> {
    let places = Arc::new(Places::of(&std::env::var(PLACES).unwrap_or_default()));
    fs::create_dir_all(&options.directory)?;
    let listener = listen(&options.directory.join(SOCKET))?;
    let own = OwnFile::of(options, &places)?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    own.iter().try_for_each(OwnFile::follow)?;
    line::announce("ready multus")?;
    // It follows the indicator, and not who else removes its file.
    let mut was_wanted = own.as_ref().is_some_and(OwnFile::is_wanted);
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                tokio::spawn(connection(stream, Arc::clone(&places)));
            }
            _ = looks.tick() => {
                let is_wanted = own.as_ref().is_some_and(OwnFile::is_wanted);
                if std::mem::replace(&mut was_wanted, is_wanted) != is_wanted {
                    own.iter().try_for_each(OwnFile::follow)?;
                }
            }
            _ = terminated.recv() => {
                return own.filter(|own| own.path.exists()).map_or(Ok(()), |own| fs::remove_file(own.path));
            }
        }
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    // One of before may be left.
    let _ = fs::remove_file(socket);
    UnixListener::bind(socket)
}

/// Errors of a connection are the shim's.
async fn connection(stream: UnixStream, places: Arc<Places>) {
    let service = service_fn(move |request| reply(request, Arc::clone(&places)));
    let _ended = server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn reply(request: Request<Incoming>, places: Arc<Places>) -> Result<Response<Full<Bytes>>, Infallible> {
    let call: Option<Call> = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice(&body.to_bytes()).ok(),
        Err(_) => None,
    };
    let done = match &call {
        None => Err("failed to unmarshal the request".to_owned()),
        Some(call) => carry_out(call, &places).await.map_err(|error| told(call, &error)),
    };
    let (code, body) = match done {
        Ok(result) => (StatusCode::OK, result.to_string()),
        Err(error) => (StatusCode::BAD_REQUEST, error),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    Ok(response)
}

/// An error, with whose call it was.
fn told(call: &Call, error: &str) -> String {
    let of = |name| call.get(name);
    let doing = if of("CNI_COMMAND") == "ADD" { "configuring" } else { "deleting" };
    format!(
        "ContainerID:{:?} Netns:{:?} IfName:{:?} Args:{:?} Path:\"\" ERRORED: error {doing} pod [{}/{}] networking: {error}",
        of("CNI_CONTAINERID"),
        of("CNI_NETNS"),
        of("CNI_IFNAME"),
        of("CNI_ARGS"),
        call.argument("K8S_POD_NAMESPACE"),
        call.argument("K8S_POD_NAME"),
    )
}
