// SPDX-License-Identifier: Apache-2.0
//! Looks at the node. Reads only.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use protocol::netconf::BACKEND_RECORD;
use sha2::{Digest as _, Sha256};

use super::{Agent, Binary, Conflist, Content, Credentials, JudgedBy, NodeStatus, Setting, Socket, Use};
use crate::conflist::entry;
use crate::conflist::plan::{DesiredConflist, Step};
use crate::files;
use crate::http::{HEALTH_PORT, Ready};
use crate::install::kubeconfig::expiry;
use crate::install::{BINARY, KUBECONFIG, directory};
use crate::serve::LOG_SOCKET;
use crate::serve::socket::connect;
use crate::settings::build::{NodeFacts, build};
use crate::settings::effective::Effective;
use crate::settings::layers::Values;
use crate::settings::load::template_file;
use crate::settings::{Loaded, Network, Origin, Settings};

/// Deadline of the agent's answer.
const LIMIT: Duration = Duration::from_secs(3);
/// Size limit of an answer or a kubeconfig.
const LARGEST: u64 = 1 << 20;

pub(super) fn gather(loaded: &Loaded) -> NodeStatus {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, HEALTH_PORT));
    let Judgement { judged_by, settings, values, mistakes } = judgement(loaded, effective(address));
    let places = &settings.places;
    let binary = |path: &Path| Binary {
        path: path.display().to_string(),
        content: content(path, &places.source_dir.join(BINARY)),
    };
    let sockets = [(protocol::agent::SOCKET, Use::Questions), (LOG_SOCKET, Use::Lines)];
    NodeStatus {
        binaries: places.target_dirs.iter().map(|dir| binary(&dir.join(BINARY))).collect(),
        credentials: credentials(&places.run_dir.join(KUBECONFIG)),
        conflist: conflist(&settings),
        sockets: sockets.map(|(name, purpose)| socket(&places.run_dir.join(name), purpose)).into(),
        backend: fs::read_to_string(places.run_dir.join(BACKEND_RECORD))
            .ok()
            .map(|text| text.trim().to_owned()),
        agent: ask(address),
        unknown_name: settings.own.unknown_name(Network::of_this_process(&places.proc_dir)),
        judged_by,
        settings: given(&values),
        mistakes,
    }
}

/// Basis of the comparison.
pub(super) struct Judgement {
    pub(super) judged_by: JudgedBy,
    pub(super) settings: Settings,
    pub(super) values: Values,
    pub(super) mistakes: Vec<String>,
}

/// Settings in effect of the running agent; else those of this process, which lack the `ConfigMap`.
pub(super) fn judgement(loaded: &Loaded, effective: Option<Effective>) -> Judgement {
    let Some(effective) = effective else {
        return Judgement {
            judged_by: JudgedBy::Surroundings,
            settings: loaded.settings.clone(),
            values: loaded.values.clone(),
            mistakes: loaded.mistakes.iter().map(ToString::to_string).collect(),
        };
    };
    let values = effective.values();
    // The agent's may be named by its command line, which this process does not have.
    let found = NodeFacts { template_file: template_file(&values), ..loaded.found.clone() };
    let (settings, mistakes) = build(&values, &found);
    let refused = effective.refused.iter().map(|one| {
        format!("{}={:?} from {} is not applied: {}", one.key, one.wanted.text, one.wanted.origin, one.why)
    });
    let mistakes = mistakes.iter().map(ToString::to_string).chain(refused).collect();
    Judgement { judged_by: JudgedBy::Agent, settings, values, mistakes }
}

/// Plan that the agent would make: empty, if all is well.
fn conflist(settings: &Settings) -> Conflist {
    let mut seen = Conflist::default();
    let chain = &settings.chain;
    let wanted = if chain.chained { entry::chained(settings) } else { entry::standalone(settings) };
    let (entry, now) = match (wanted, directory::read(&settings.places.net_dir)) {
        (Ok(entry), Ok(now)) => (entry, now),
        (Err(error), _) => return Conflist { problem: Some(error.to_string()), ..seen },
        (_, Err(error)) => return Conflist { problem: Some(error.to_string()), ..seen },
    };
    seen.usable = now.usable().map(|(name, _)| name.to_owned()).collect();
    // Which plugins can do the newest version the agent has asked them: a list with it is as right as one without.
    let [plan, raised] = [BTreeSet::new(), now.types()]
        .map(|able| DesiredConflist { chain, entry: &entry, made: &BTreeSet::new(), able: &able }.plan(&now));
    let plan = if raised.steps.is_empty() { raised } else { plan };
    match (plan.steps.first(), plan.then) {
        (_, Err(why)) => seen.problem = Some(why.within(settings.places.shown(&settings.places.net_dir))),
        (Some(Step::Write { name, .. }), _) => {
            seen.problem =
                Some(format!("{name} lacks our entry, has it with other settings, or is not to have it"));
        }
        (Some(Step::Remove { name }), _) => {
            seen.problem = Some(format!("{name} should not be there any more"))
        }
        (None, Ok(file)) => seen.file = Some(file),
    }
    seen
}

/// A line of each setting that is not a default.
fn given(values: &Values) -> Vec<Setting> {
    let line = |text: &str| match text.split_once('\n') {
        Some((first, _)) => format!("{first} …"),
        None => text.to_owned(),
    };
    let given = values.iter().filter(|(_, value)| value.origin != Origin::Default);
    given
        .map(|(key, value)| Setting { key: key.variable(), value: line(&value.text), origin: value.origin })
        .collect()
}

/// Compares a binary of the node with this agent's.
pub(super) fn content(path: &Path, shipped: &Path) -> Content {
    if shipped.is_file() && files::same_content(shipped, path).is_ok_and(|same| same) {
        return Content::Shipped;
    }
    match digest(path) {
        Ok(sha256) if shipped.is_file() => Content::Other(sha256),
        Ok(sha256) => Content::Unjudged(sha256),
        Err(error) => Content::Unreadable(error.to_string()),
    }
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut block = [0; 64 * 1024];
    loop {
        match file.read(&mut block)? {
            0 => break,
            read => hash.update(&block[..read]),
        }
    }
    Ok(HEXLOWER.encode(&hash.finalize()))
}

pub(super) fn credentials(path: &Path) -> Credentials {
    let mut found = Credentials { path: path.display().to_string(), ..Credentials::default() };
    let text = File::open(path).and_then(|file| {
        found.mode = Some(file.metadata()?.mode() & 0o7777);
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text)?;
        Ok(text)
    });
    match text {
        Err(error) => found.problem = Some(error.to_string()),
        // Nothing of the content gets into the problem: it might be the token.
        Ok(text) => match token(&text) {
            None => found.problem = Some("there is no token of a user in it".to_owned()),
            Some(token) => found.token_expires = expiry(&token),
        },
    }
    found
}

fn token(kubeconfig: &str) -> Option<String> {
    let value: serde_json::Value = serde_saphyr::from_str(kubeconfig).ok()?;
    let token = value["users"][0]["user"]["token"].as_str()?.trim();
    (!token.is_empty()).then(|| token.to_owned())
}

fn socket(path: &Path, purpose: Use) -> Socket {
    let problem = connect(path).err().map(|error| match error.kind() {
        io::ErrorKind::WouldBlock => "its queue is full: whoever listens there hangs".to_owned(),
        _ => error.to_string(),
    });
    Socket { path: path.display().to_string(), purpose, problem }
}

pub(super) fn ask(address: SocketAddr) -> Agent {
    let body = match get(address, "/readyz") {
        Ok(body) => body,
        Err(error) => return Agent::Silent(format!("{address}: {error}")),
    };
    match serde_json::from_str::<Ready>(&body) {
        Ok(ready) if ready.ready => Agent::Ready,
        Ok(ready) => Agent::NotReady(ready.missing),
        Err(_) => Agent::Silent(format!("{address}: somebody else answers there")),
    }
}

/// Settings in effect of the running agent; `None` if there is none, or it does not report them.
pub(super) fn effective(address: SocketAddr) -> Option<Effective> {
    serde_json::from_str(&get(address, "/settings").ok()?).ok()
}

/// Body of a GET.
fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
