// SPDX-License-Identifier: Apache-2.0
//! The agent's socket, with scripted peers behind it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use protocol::agent::PodKey;

use super::*;
use crate::clock::SystemClock;

const LIMIT: Duration = Duration::from_millis(200);
/// Tolerance for contention.
const SLACK: Duration = Duration::from_secs(5);

fn ask_at(path: &Path) -> Result<Response, AgentError> {
    let clock = SystemClock::start();
    let agent = SocketAgent { clock: &clock, own_uid: || rustix::process::geteuid().as_raw() };
    agent.send(path, RequestKind::Pod(key()), LIMIT)?.wait()
}

fn key() -> PodKey {
    PodKey {
        namespace: "shop".into(),
        name: "cart".into(),
        uid: "u1".into(),
        container_id: "c1".into(),
        ..PodKey::default()
    }
}

struct Peer<T> {
    dir: tempfile::TempDir,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Peer<T> {
    /// A listener whose first connection is served by `serve`.
    fn start(serve: impl FnOnce(UnixStream) -> T + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("agent.sock")).unwrap();
        let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        Self { dir, thread }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("agent.sock")
    }

    fn ask(self) -> (Result<Response, AgentError>, T) {
        let answer = ask_at(&self.path());
        (answer, self.thread.join().unwrap())
    }
}

fn read_line(stream: &mut UnixStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

fn answering(answer: &'static str) -> Result<Response, AgentError> {
    let peer = Peer::start(move |mut stream| {
        read_line(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
    });
    peer.ask().0
}

#[test]
fn a_known_pod_comes_back_and_the_question_names_it() {
    let peer = Peer::start(|mut stream| {
        let line = read_line(&mut stream);
        // In two pieces: a line need not come at once.
        stream.write_all(b"{\"version\":1,\"response\":\"found\",\"pod\":{\"metadata\":").unwrap();
        stream
            .write_all(b"{\"name\":\"cart\",\"namespace\":\"shop\",\"uid\":\"u1\"},\"news\":1}}\n")
            .unwrap();
        line
    });
    let (answer, line) = peer.ask();
    let Response::Found { pod } = answer.unwrap() else { panic!("not found") };
    assert_eq!(pod.metadata.name, "cart");
    let question: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(question["kind"], "pod");
    assert_eq!(question["uid"], "u1");
    assert_eq!(question["version"], VERSION);
}

#[test]
fn agents_of_other_versions_are_understood_or_refused() {
    let known = |answer| answering(answer).unwrap();
    assert_eq!(known("{\"version\":1,\"response\":\"unsupported\"}\n"), Response::Unsupported);
    assert_eq!(known("{\"version\":1,\"response\":\"of_tomorrow\"}\n"), Response::Unsupported);
    assert_eq!(known("{\"version\":1,\"response\":\"unknown\",\"since\":3}\n"), Response::Unknown);
    let newer = answering("{\"version\":2,\"response\":\"unknown\"}\n");
    assert!(matches!(newer, Err(AgentError::Newer(2))), "{newer:?}");
}

#[test]
fn garbage_is_not_an_answer() {
    for answer in ["hello\n", "\n", "[]\n", "{\"version\":1}\n", "{\"response\":\"unknown\"}\n"] {
        let result = answering(answer);
        assert!(matches!(result, Err(AgentError::Line(LineError::Json(_)))), "{answer}: {result:?}");
    }
}

#[test]
fn half_a_line_is_not_an_answer() {
    for answer in ["", "{\"version\":1,\"response\":\"unknown\"}"] {
        let result = answering(answer);
        assert!(matches!(result, Err(AgentError::Closed)), "{answer}: {result:?}");
    }
}

#[test]
fn a_line_without_end_is_cut_off() {
    let peer = Peer::start(|mut stream| {
        read_line(&mut stream);
        // Ends when the other side has had enough and hangs up.
        while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    });
    let result = peer.ask().0;
    assert!(
        matches!(result, Err(AgentError::Line(LineError::TooLong(length))) if length == MAX_LINE + 1),
        "{result:?}"
    );
}

#[test]
fn a_silent_agent_is_given_up_at_the_limit() {
    let peer = Peer::start(|mut stream| {
        read_line(&mut stream);
        // Until the other side hangs up.
        stream.read(&mut [0]).unwrap()
    });
    let clock = SystemClock::start();
    let (result, rest) = peer.ask();
    let passed = clock.now();
    assert!(matches!(result, Err(AgentError::Late(LIMIT))), "{result:?}");
    assert_eq!(rest, 0);
    assert!(passed >= LIMIT && passed < LIMIT + SLACK, "{passed:?}");
}

#[test]
fn an_agent_that_dribbles_does_not_stretch_the_limit() {
    let peer = Peer::start(|mut stream| {
        while stream.write_all(b" ").is_ok() {
            SystemClock::start().wait(Duration::from_millis(10));
        }
    });
    let clock = SystemClock::start();
    let result = peer.ask().0;
    let passed = clock.now();
    assert!(matches!(result, Err(AgentError::Late(_))), "{result:?}");
    assert!(passed >= LIMIT && passed < LIMIT + SLACK, "{passed:?}");
}

#[test]
fn a_listener_of_another_user_is_not_asked() {
    let peer = Peer::start(|mut stream| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        got
    });
    let clock = SystemClock::start();
    let wary = SocketAgent { clock: &clock, own_uid: || rustix::process::geteuid().as_raw() + 1 };
    let result = wary.send(&peer.path(), RequestKind::Pod(key()), LIMIT).err();
    assert!(
        matches!(result, Some(AgentError::Stranger { listener, own }) if own == listener + 1),
        "{result:?}"
    );
    assert!(peer.thread.join().unwrap().is_empty());
}

#[test]
fn nobody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let ask = || ask_at(&path);
    assert!(matches!(ask(), Err(AgentError::Absent)));
    // A killed agent leaves its socket file.
    drop(UnixListener::bind(&path).unwrap());
    assert!(matches!(ask(), Err(AgentError::Absent)));
    let too_long = dir.path().join("x".repeat(200));
    assert!(matches!(ask_at(&too_long), Err(AgentError::Io(_))));
}

#[test]
fn telling_does_not_wait_for_an_agent_that_is_silent() {
    let (done, finished) = std::sync::mpsc::channel::<()>();
    let peer = Peer::start(move |mut stream| {
        // Reads only after the other side has gone.
        finished.recv().unwrap();
        read_line(&mut stream)
    });
    let clock = SystemClock::start();
    let agent = SocketAgent { clock: &clock, own_uid: || rustix::process::geteuid().as_raw() };
    drop(agent.send(&peer.path(), RequestKind::Deleted(key()), TELL_LIMIT).unwrap());
    let passed = clock.now();
    done.send(()).unwrap();
    let line = peer.thread.join().unwrap();
    assert!(line.contains("\"kind\":\"deleted\""), "{line}");
    assert!(line.contains("\"container_id\":\"c1\""), "{line}");
    assert!(passed < TELL_LIMIT, "{passed:?}");
}

#[test]
fn telling_an_agent_that_does_not_even_accept_ends_at_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path.as_path()).unwrap()).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    // The queue takes one more than its length.
    let _waiting = UnixStream::connect(&path).unwrap();
    let clock = crate::testing::FakeClock::new();
    let agent = SocketAgent { clock: &clock, own_uid: || 0 };
    let before = clock.now();
    let result = agent.send(&path, RequestKind::Deleted(key()), TELL_LIMIT).err();
    assert!(matches!(result, Some(AgentError::Late(TELL_LIMIT))), "{result:?}");
    assert_eq!(clock.now() - before, TELL_LIMIT);
}
