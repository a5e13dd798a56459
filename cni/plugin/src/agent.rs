// SPDX-License-Identifier: Apache-2.0
//! The node agent, asked over its socket in the run directory: one connection, one line out, one line in, and a deadline
//! over all of it. Whatever goes wrong is an [`AgentError`], and the caller goes to the API server instead.
//!
//! The answer decides whether a pod is redirected, so it must come from a process of our own user: the kernel tells who
//! listens. The agent is asked before the pod's namespace is entered.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use protocol::agent::{
    LineError, MAX_LINE, Reply, Request, RequestKind, Response, VERSION, decode_line, encode_line,
};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::clock::{Clock, Deadline, timespec};

/// Time an ADD waits for the agent before it asks the API server: far above the response time of a busy agent, far below
/// what the kubelet notices.
pub const ASK_LIMIT: Duration = Duration::from_secs(1);

/// All that a DEL may spend on telling the agent.
pub const TELL_LIMIT: Duration = Duration::from_millis(50);

/// Delay between attempts while the listener's backlog is full: no event announces room in it.
const QUEUE_FULL_WAIT: Duration = Duration::from_millis(2);

/// Enough for a slimmed pod in one read.
const READ_SIZE: usize = 16 * 1024;

/// Failure of a request to the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody listens; what a node without an agent looks like.
    #[error("failed to find an agent at its socket")]
    Absent,
    /// The runtime passed no `K8S_POD_UID`: the agent may still know a deleted pod of the same name.
    #[error(
        "failed to ask the agent: the runtime passed no K8S_POD_UID, and a deleted pod of the same name may be known"
    )]
    NoUid,
    /// The socket may not be connected to.
    #[error("failed to connect to the agent at {}: {reason}", socket.display())]
    Denied {
        /// The socket.
        socket: Box<Path>,
        /// The system's reason.
        reason: Errno,
    },
    /// A system call failed.
    #[error("failed to talk to the agent: {0}")]
    Io(#[from] Errno),
    /// The listener runs as another user.
    #[error("failed to trust the agent's socket: its owner runs as uid {listener}, this plugin as {own}")]
    Stranger {
        /// The listener's uid.
        listener: u32,
        /// Our effective uid.
        own: u32,
    },
    /// No answer in time.
    #[error("failed to get the agent's answer within {0:?}")]
    Late(Duration),
    /// The agent hung up first.
    #[error("failed to get the agent's answer: it closed the connection")]
    Closed,
    /// The answer is not a line that we can read, or the question is none that may be sent.
    #[error("failed to {0}")]
    Line(#[from] LineError),
    /// The reply is written in a version that we did not offer.
    #[error("failed to read the agent's answer: it is of version {0}, newer than asked for")]
    Newer(u32),
}

/// Whoever answers for the node.
pub trait Agent {
    /// Sends a message. All of it, the answer included, may take `limit` from now.
    ///
    /// # Errors
    /// When there is nobody to trust, or the message could not be handed over.
    fn send(
        &self,
        socket: &Path,
        kind: RequestKind,
        limit: Duration,
    ) -> Result<Box<dyn PendingAnswer + '_>, AgentError>;
}

/// An answer on its way. To drop it is to leave a message that waits for none.
pub trait PendingAnswer {
    /// Waits for it.
    ///
    /// # Errors
    /// When there is no answer that can be read in time.
    fn wait(self: Box<Self>) -> Result<Response, AgentError>;
}

/// The agent behind the socket in the run directory.
pub struct SocketAgent<'c> {
    /// Drives the deadlines.
    pub clock: &'c dyn Clock,
    /// Whose agent is trusted; asked for when somebody listens.
    pub own_uid: fn() -> u32,
}

impl Agent for SocketAgent<'_> {
    fn send(
        &self,
        socket: &Path,
        kind: RequestKind,
        limit: Duration,
    ) -> Result<Box<dyn PendingAnswer + '_>, AgentError> {
        let call = Call { agent: self, limit, deadline: Deadline::after(self.clock, limit) };
        let socket = call.connect(socket)?;
        // Data in the socket's buffer reaches the agent even after this process ended.
        call.send(&socket, kind)?;
        Ok(Box::new(Sent { call, socket }))
    }
}

/// A message that was sent.
struct Sent<'a> {
    call: Call<'a>,
    socket: OwnedFd,
}

impl PendingAnswer for Sent<'_> {
    fn wait(self: Box<Self>) -> Result<Response, AgentError> {
        let reply: Reply = decode_line(&self.call.read_line(&self.socket)?)?;
        if reply.version > VERSION {
            return Err(AgentError::Newer(reply.version));
        }
        Ok(reply.response)
    }
}

/// One exchange and its deadline.
struct Call<'a> {
    agent: &'a SocketAgent<'a>,
    limit: Duration,
    deadline: Deadline,
}

impl Call<'_> {
    fn connect(&self, path: &Path) -> Result<OwnedFd, AgentError> {
        let address = SocketAddrUnix::new(path)?;
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(AgentError::Absent),
                Err(Errno::AGAIN) => self.pause()?,
                Err(Errno::INTR) => {}
                Err(reason @ (Errno::ACCESS | Errno::PERM)) => {
                    return Err(AgentError::Denied { socket: path.into(), reason });
                }
                Err(other) => return Err(other.into()),
            }
        }
        let listener = rustix::net::sockopt::socket_peercred(&socket)?.uid.as_raw();
        let own = (self.agent.own_uid)();
        if listener == own { Ok(socket) } else { Err(AgentError::Stranger { listener, own }) }
    }

    fn pause(&self) -> Result<(), AgentError> {
        let left = self.deadline.left(self.agent.clock);
        if left.is_zero() {
            return Err(AgentError::Late(self.limit));
        }
        self.agent.clock.wait(left.min(QUEUE_FULL_WAIT));
        Ok(())
    }

    fn send(&self, socket: &OwnedFd, kind: RequestKind) -> Result<(), AgentError> {
        let line = encode_line(&Request { version: VERSION, kind })?;
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match rustix::net::send(socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN) => self.await_socket(socket, PollFlags::OUT)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(AgentError::Closed),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    fn read_line(&self, socket: &OwnedFd) -> Result<Vec<u8>, AgentError> {
        let mut line = Vec::new();
        loop {
            self.await_socket(socket, PollFlags::IN)?;
            let had = line.len();
            // One byte more than the limit is enough to know that a line is too long.
            line.reserve_exact((2 * had).clamp(READ_SIZE, MAX_LINE + 1) - had);
            match rustix::net::recv(socket, spare_capacity(&mut line), RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(AgentError::Closed),
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(other) => return Err(other.into()),
            }
            if let Some(end) = line[had..].iter().position(|&byte| byte == b'\n') {
                line.truncate(had + end + 1);
                line.shrink_to_fit();
                return Ok(line);
            }
            if line.len() > MAX_LINE {
                return Err(LineError::TooLong(line.len()).into());
            }
        }
    }

    fn await_socket(&self, socket: &OwnedFd, flags: PollFlags) -> Result<(), AgentError> {
        let left = self.deadline.left(self.agent.clock);
        match rustix::event::poll(&mut [PollFd::new(socket, flags)], Some(&timespec(left))) {
            Ok(0) => Err(AgentError::Late(self.limit)),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
