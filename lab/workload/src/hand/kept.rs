// SPDX-License-Identifier: Apache-2.0
//! A TCP connection that stays open, as those in an application's pool: asks on it again and again, until it is stopped or nobody answers.

use std::io::{self, BufRead as _, BufReader, PipeReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use cluster::Traffic;
use cluster::hand::{Answer, Network};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::thread::CapabilitySet;

use super::{Asker, place, programs};
use crate::line;

/// Time between an answer and the next question, in milliseconds.
const PAUSE: u16 = 50;

/// Says each answer. Its first one is waited for before it says that it follows.
pub(crate) async fn follow(
    network: Network,
    traffic: Traffic,
    deadline: Duration,
    asker: Asker,
    stopped: Option<PipeReader>,
) -> io::Result<Answer> {
    let work = move || {
        let owner = (traffic.uid, traffic.gid);
        if owner != (0, 0) {
            programs::take_on(owner, CapabilitySet::empty()).map_err(io::Error::other)?;
        }
        let to = SocketAddr::new(traffic.destination, traffic.port);
        let mut open = Open::to(to, deadline)?;
        let first = open.ask()?;
        asker.say(Ok(Answer::Following))?;
        asker.say(Ok(Answer::Heard(first)))?;
        loop {
            if is_stopped(stopped.as_ref())? {
                return Ok(Answer::Done);
            }
            match open.ask() {
                Ok(answer) => asker.say(Ok(Answer::Heard(answer)))?,
                Err(error) => return Ok(Answer::Cut(error.to_string())),
            }
        }
    };
    place::inside(network, work).await?
}

struct Open(BufReader<TcpStream>);

impl Open {
    fn to(to: SocketAddr, deadline: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, deadline)?;
        stream.set_read_timeout(Some(deadline))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self) -> io::Result<cluster::Answer> {
        self.0.get_mut().write_all(line::AGAIN)?;
        let mut text = String::new();
        if self.0.read_line(&mut text)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&text)?)
    }
}

/// Waits for the next question's time; true if there is to be none.
fn is_stopped(stopped: Option<&PipeReader>) -> io::Result<bool> {
    let mut end: Vec<_> =
        stopped.iter().map(|stopped| PollFd::new(stopped.as_fd(), PollFlags::POLLIN)).collect();
    match poll(&mut end, PollTimeout::from(PAUSE)) {
        Err(Errno::EINTR) => Ok(false),
        polled => Ok(polled? > 0),
    }
}
