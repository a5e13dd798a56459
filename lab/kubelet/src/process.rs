// SPDX-License-Identifier: Apache-2.0
//! One process in a namespace: started under a user, awaited until its first line says that it is up, killed, its output
//! kept for evidence.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::Timestamp;
use cluster::{Bounded, Files, bounded};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::Mode;
use rustix::process::umask;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

use crate::contention;
use crate::error::Error;
use crate::netns;
use crate::output::{Output, Stream};
use crate::pids::Pids;
use crate::rights::{self, Rights};
use crate::rootfs::{self, Root};
use crate::view::View;

/// The lab's program.
const WORKLOAD: &str = "workload";
/// Its subcommand that runs another program.
pub(crate) const FAKE_KERNEL: &str = "fake-kernel";
/// Resolver configuration of a process.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// Executable.
    pub path: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment, whole.
    pub env: BTreeMap<String, String>,
    /// UID.
    pub uid: u32,
    /// Primary GID; there are no others.
    pub gid: u32,
    /// Capabilities, if it is root.
    pub rights: Rights,
    /// Permission to write files; with a root of its own, those that are on no volume.
    pub files: Files,
    /// Permission to write the kernel's settings below `/proc`, as far as its user and its rights go.
    pub settings: Files,
    /// Mask of the modes of files that it makes; the lab's own if absent.
    pub umask: Option<u32>,
    /// File for `/etc/resolv.conf`; the node's own if absent.
    pub resolv_conf: Option<PathBuf>,
    /// The node whose files and processes it sees, the files only if it has no root of its own; the lab's if absent.
    pub view: Option<Arc<View>>,
    /// A file system of its own, in which its path is looked up; the lab's if absent.
    pub root: Option<Root>,
}

impl Program {
    /// `path` with `args`, as root, with an empty environment.
    pub fn new<A: Into<String>>(path: &Path, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        let env = BTreeMap::new();
        let rights = Rights::ALL;
        Self {
            path: path.to_owned(),
            args,
            env,
            uid: 0,
            gid: 0,
            rights,
            files: Files::Writable,
            settings: Files::Writable,
            umask: None,
            resolv_conf: None,
            view: None,
            root: None,
        }
    }

    /// The same under another user and group.
    #[must_use]
    pub fn as_user(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args).env_clear().envs(&self.env).kill_on_drop(true);
        command
    }

    /// Starts it in the namespace at `netns`, with all its standard streams piped.
    pub(crate) async fn spawn(&self, netns: &Path) -> Result<Child, Error> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let place = self.clone();
        let spawn = move || {
            // A process has what the thread has that starts it, and this thread ends with that.
            place.enter()?;
            Ok::<_, Error>(command.spawn())
        };
        let started = netns::inside(netns, spawn).await??;
        started.map_err(|error| match error.kind() {
            // A container's own fault: its image lacks the program.
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                Error::Process { program: self.path.clone(), why: error.to_string() }
            }
            _ => Error::system("start a process")(error),
        })
    }

    /// Whose program it is. The lab's own may run another one on another kernel.
    fn blame(&self) -> Blame {
        let runs_another = self.args.first().is_some_and(|word| word == FAKE_KERNEL);
        let is_own = self.path.file_name().is_some_and(|name| name == WORKLOAD) && !runs_another;
        Blame { path: self.path.clone(), is_own }
    }

    /// Gives this thread, and what it starts, the program's processes, files and rights.
    fn enter(&self) -> Result<(), Error> {
        let pids = self.view.as_deref().map(View::pids);
        pids.as_deref().map_or(Ok(()), Pids::join)?;
        let view = self.view.as_deref().filter(|_| self.root.is_none());
        view.map_or(Ok(()), View::enter)?;
        let sees_the_labs = self.root.is_none() && self.resolv_conf.is_none();
        if !sees_the_labs || self.settings == Files::ReadOnly || self.files == Files::ReadOnly {
            rootfs::separate()?;
        }
        match (&self.root, &self.resolv_conf) {
            (Some(root), resolv_conf) => {
                let mount_proc = |at: &Path| {
                    pids.as_deref().map_or_else(|| rootfs::mount_proc(at), |pids| pids.show_proc(at))
                };
                root.enter(resolv_conf.as_deref(), mount_proc)?;
            }
            (None, Some(file)) => netns::hide_behind(file, Path::new(RESOLV_CONF))?,
            (None, None) => {}
        }
        if self.settings == Files::ReadOnly {
            rootfs::write_no_settings()?;
        }
        match (self.files, &self.root) {
            (Files::ReadOnly, Some(_)) => rootfs::write_no_root()?,
            (Files::ReadOnly, None) => rootfs::write_nothing(view.map(View::written))?,
            (Files::Writable, _) => {}
        }
        // This thread has a mask of its own, as it has a directory.
        if let Some(mask) = self.umask {
            umask(Mode::from_raw_mode(mask));
        }
        self.rights.take_on()?;
        if (self.uid, self.gid) == (0, 0) { Ok(()) } else { rights::become_user(self.uid, self.gid) }
    }

    /// Runs it in the namespace at `netns` to its end. One that is still there at the deadline is killed.
    ///
    /// # Errors
    /// It cannot be started, or is late.
    pub async fn finish(
        &self,
        netns: &Path,
        input: &[u8],
        deadline: Duration,
    ) -> Result<std::process::Output, Error> {
        Ok(self.measure(netns, input, deadline).await?.0)
    }

    /// As [`Program::finish`], with the time that it waited for a core.
    pub(crate) async fn measure(
        &self,
        netns: &Path,
        input: &[u8],
        deadline: Duration,
    ) -> Result<(std::process::Output, Duration), Error> {
        let mut child = self.spawn(netns).await?;
        let stdin = child.stdin.take();
        let exchange = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A program that gives up early says why on its standard error.
                    let _ = stdin.write_all(input).await;
                }
            };
            tokio::join!(write, contention::wait_with_output(child)).1
        };
        tokio::time::timeout(deadline, exchange)
            .await
            .map_err(|_| self.blame().late("the end", deadline))?
            .map_err(Error::system("wait for a process"))
    }
}

/// Whose fault it is if a program is late.
#[derive(Debug, Clone)]
struct Blame {
    path: PathBuf,
    /// It is the lab's own, which only waits for a core.
    is_own: bool,
}

impl Blame {
    fn late(&self, what: &str, deadline: Duration) -> Error {
        let what = format!("{what} of {}", self.path.display());
        if self.is_own { Error::Late { what, deadline } } else { Error::Deadline { what, deadline } }
    }
}

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exited with this code.
    Code(i32),
    Signal(i32),
}

impl Exit {
    pub(crate) fn of(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Code)
    }

    /// Exit code as a container runtime reports it.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// End of a process and its time, once it has ended.
pub type ExitWatch = watch::Receiver<Option<(Exit, Timestamp)>>;

/// A started process; dropping it kills it.
#[derive(Debug)]
pub struct Process {
    exit: ExitWatch,
    printed: watch::Receiver<bool>,
    signals: mpsc::UnboundedSender<Signal>,
    output: Output,
    blame: Blame,
    pid: Option<u32>,
}

impl Process {
    /// Starts `program` in the namespace at `netns`.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start(program: &Program, netns: &Path) -> Result<Self, Error> {
        Self::start_into(program, netns, Output::default()).await
    }

    /// As [`Process::start`], but what it prints is added to `output`: what is there is of those before it.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start_into(program: &Program, netns: &Path, output: Output) -> Result<Self, Error> {
        let mut child = program.spawn(netns).await?;
        drop(child.stdin.take());
        let pid = child.id();
        let (printed_first, printed) = watch::channel(false);
        let run = output.begin();
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(keep(stdout, output.stream(run), Some(printed_first)));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep(stderr, output.stream(run), None));
        }
        let (ended, exit) = watch::channel(None);
        let (signals, wanted) = mpsc::unbounded_channel();
        tokio::spawn(attend(child, wanted, ended));
        Ok(Self { exit, printed, signals, output, blame: program.blame(), pid })
    }

    /// Waits for the first line on its standard output: it is up. `Some` if it ended instead.
    ///
    /// # Errors
    /// Neither happened before the deadline.
    pub async fn ready(&self, deadline: Duration) -> Result<Option<Exit>, Error> {
        let (mut printed, mut exit) = (self.printed.clone(), self.exit.clone());
        let either = async {
            tokio::select! {
                biased;
                Ok(_) = printed.wait_for(|printed| *printed) => None,
                ended = exit.wait_for(Option::is_some) => ended.ok().and_then(|exit| *exit).map(|(exit, _)| exit),
            }
        };
        self.within(deadline, "the first line", either).await
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It has not before the deadline.
    pub async fn ended(&self, deadline: Duration) -> Result<Exit, Error> {
        let mut exit = self.exit.clone();
        let ended = async { exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit) };
        // The task that waits for the child always says how it ended; without that it was killed with the runtime.
        Ok(self.within(deadline, "the end", ended).await?.map_or(Exit::Signal(9), |(exit, _)| exit))
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        what: &str,
        event: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::time::timeout(deadline, event).await.map_err(|_| self.blame.late(what, deadline))
    }

    /// Sends a signal, if it still runs.
    pub fn signal(&self, signal: Signal) {
        let _ended = self.signals.send(signal);
    }

    /// Kills it and waits for its end.
    pub async fn kill(&self) {
        self.signal(Signal::SIGKILL);
        let mut exit = self.exit.clone();
        let _ = exit.wait_for(Option::is_some).await;
    }

    /// Sends SIGTERM and waits for its end; SIGKILL after `grace`.
    pub async fn terminate(&self, grace: Duration) {
        self.signal(Signal::SIGTERM);
        if self.ended(grace).await.is_err() {
            self.kill().await;
        }
    }

    /// Exit, if it has ended.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.exit_at().map(|(exit, _)| exit)
    }

    /// Exit and its time, if it has ended.
    #[must_use]
    pub fn exit_at(&self) -> Option<(Exit, Timestamp)> {
        *self.exit.borrow()
    }

    /// Its end, for those who outlive it.
    #[must_use]
    pub fn exits(&self) -> ExitWatch {
        self.exit.clone()
    }

    /// Waits for its end, however long that takes.
    pub fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut exit = self.exit.clone();
        async move { drop(exit.wait_for(Option::is_some).await) }
    }

    /// Pid that it was started with.
    #[must_use]
    pub fn first_pid(&self) -> Option<u32> {
        self.pid
    }

    /// Pid, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.pid.filter(|_| self.exit().is_none())
    }

    /// Its number among the node's processes, while it runs.
    #[must_use]
    pub fn number_on_node(&self) -> Option<u32> {
        number_on_node(self.pid()?)
    }

    #[must_use]
    pub fn output(&self) -> &Output {
        &self.output
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Number of a process of a node among that node's.
pub(crate) fn number_on_node(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    // In each namespace from the lab's to its own, which is the node's.
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

async fn attend(
    mut child: Child,
    mut wanted: mpsc::UnboundedReceiver<Signal>,
    ended: watch::Sender<Option<(Exit, Timestamp)>>,
) {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            Some(signal) = wanted.recv() => {
                // Its number is its own until it is waited for.
                if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            }
        }
    };
    ended.send_replace(Some((status.map_or(Exit::Signal(9), Exit::of), Timestamp::now())));
}

async fn keep(stream: impl AsyncRead + Unpin, output: Stream, first: Option<watch::Sender<bool>>) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(line)) = line(&mut stream).await {
        output.push(String::from_utf8_lossy(&line).into_owned());
        if let Some(first) = &first {
            first.send_replace(true);
        }
    }
}

/// Next line without its end, bounded; `None` at the end of the stream.
async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut is_empty) = (Bounded::new(bounded::OUTPUT), true);
    loop {
        let read = stream.fill_buf().await?;
        if read.is_empty() {
            return Ok((!is_empty).then(|| line.bytes()));
        }
        is_empty = false;
        let end = read.iter().position(|byte| *byte == b'\n');
        line.push(&read[..end.unwrap_or(read.len())]);
        let used = end.map_or(read.len(), |end| end + 1);
        stream.consume(used);
        if end.is_some() {
            return Ok(Some(line.bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::LabError;

    use super::*;

    #[tokio::test]
    async fn lines_come_one_by_one_and_one_without_an_end_is_bounded() {
        let endless = vec![b'x'; 3 * bounded::OUTPUT];
        let text = [b"first\n\n", endless.as_slice(), b"\nlast"].concat();
        let (mut stream, mut lines) = (text.as_slice(), Vec::new());
        while let Some(line) = line(&mut stream).await.unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(
            (lines.len(), lines[0].as_str(), lines[1].as_str(), lines[3].as_str()),
            (4, "first", "", "last")
        );
        assert!(lines[2].len() < bounded::OUTPUT + 64 && lines[2].contains(" bytes left out "));
    }

    fn late(path: &str, args: &[&str]) -> LabError {
        let program = Program::new(Path::new(path), args.iter().copied());
        program.blame().late("the end", Duration::from_secs(1)).into()
    }

    #[test]
    fn only_what_may_be_the_system_under_test_fails_by_being_late() {
        for under_test in
            [late("/bin/istio-cni", &[]), late("/lab/workload", &[FAKE_KERNEL, "--", "/bin/istio-cni"])]
        {
            assert!(matches!(under_test, LabError::Deadline { .. }), "{under_test}");
        }
        let own = late("/lab/workload", &["hand"]);
        assert!(matches!(own, LabError::Harness { .. }), "{own}");
    }
}
