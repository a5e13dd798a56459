// SPDX-License-Identifier: Apache-2.0
//! A netlink socket of the calling thread's namespace: sends requests, receives datagrams. What is in them is up to others.
//!
//! A process in the pod with CAP_NET_ADMIN can send to our port. So the socket is connected to the kernel, which then refuses
//! what other ports send to it before it takes room; a datagram counts only if its sender is port 0, and a message of an answer
//! only if it has the request's sequence number. No wait is without a deadline.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, netlink, sockopt,
};

use crate::wire::{
    DONE, DUMP_INTERRUPTED, ERROR, Malformed, Message, acknowledgement, messages, with_sequence,
};

/// Most bytes the kernel writes into one datagram of a list.
const DATAGRAM: usize = 32 * 1024;
/// Time limit of an answer. The kernel has written its first part when the request is sent, so only locks that others hold
/// on the same tables can delay the rest: seconds on an overloaded node, and a runtime gives a plugin minutes.
const ANSWER: Duration = Duration::from_secs(10);
/// Bit of the sequence numbers of requests that are answered at length: the messages of a transaction count from 1 up and never
/// come that far, so no answer is taken for one to something else.
const ASKED: u32 = 1 << 31;

/// Failure of an exchange with the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExchangeError {
    /// A system call failed.
    System(Errno),
    /// The kernel answered with this error number.
    Refused(i32),
    /// The list changed meanwhile.
    Interrupted,
    /// The answer cannot be read.
    Malformed,
}

impl From<Malformed> for ExchangeError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<Errno> for ExchangeError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// A netlink socket.
pub(crate) struct Socket {
    file: OwnedFd,
    buffer: Vec<u8>,
    /// Number of requests answered at length.
    asked: u32,
}

impl Socket {
    /// A socket to nfnetlink.
    pub(crate) fn netfilter() -> Result<Self, Errno> {
        Self::open(Some(netlink::NETFILTER))
    }

    /// A socket to sock_diag.
    pub(crate) fn diagnosis() -> Result<Self, Errno> {
        Self::open(Some(netlink::SOCK_DIAG))
    }

    /// A socket to rtnetlink.
    pub(crate) fn route() -> Result<Self, Errno> {
        Self::open(None)
    }

    fn open(protocol: Option<Protocol>) -> Result<Self, Errno> {
        let file = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        rustix::net::connect(&file, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { file, buffer: Vec::new(), asked: 0 })
    }

    /// Sends everything in one datagram. The kernel has acted on it when this returns.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Errno> {
        let sent = match rustix::net::send(&self.file, bytes, SendFlags::empty()) {
            Err(Errno::MSGSIZE) => {
                self.widen(bytes.len())?;
                rustix::net::send(&self.file, bytes, SendFlags::empty())?
            }
            sent => sent?,
        };
        if sent == bytes.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
    }

    /// Makes room for a datagram longer than a socket's usual 208 KiB. Only root of the whole machine may exceed the system's
    /// limit (`net.core.wmem_max`); others get what it allows.
    fn widen(&self, length: usize) -> Result<(), Errno> {
        match sockopt::set_socket_send_buffer_size_force(&self.file, length) {
            Err(Errno::PERM) => sockopt::set_socket_send_buffer_size(&self.file, length),
            widened => widened,
        }
    }

    /// Hands every acknowledgement and error about a transaction that waits to `take` (sequence number of the message it is about,
    /// error number), without waiting for more.
    pub(crate) fn acknowledgements(&self, mut take: impl FnMut(u32, i32)) -> Result<(), ExchangeError> {
        // An error repeats the message that it is about; of that only the head is looked at.
        let mut head = [0; 64];
        let mut lost = None;
        loop {
            match rustix::net::recvfrom(&self.file, &mut head, RecvFlags::DONTWAIT) {
                Ok((_, _, sender)) if !is_kernel(sender.as_ref()) => {}
                Ok((length, ..)) => {
                    let (sequence, errno) = acknowledgement(head.get(..length).unwrap_or_default())?;
                    if sequence & ASKED == 0 {
                        take(sequence, errno);
                    }
                }
                Err(Errno::AGAIN) => return lost.map_or(Ok(()), |errno: Errno| Err(errno.into())),
                Err(Errno::INTR) => {}
                // Told first, of what came last: the first refusals wait behind it.
                Err(errno @ Errno::NOBUFS) => lost = Some(errno),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends one request and hands each message of the answer to `take`: the elements of a list up to its end, or what comes
    /// before the acknowledgement.
    pub(crate) fn ask(
        &mut self,
        request: &[u8],
        take: impl FnMut(Message<'_>) -> Result<(), Malformed>,
    ) -> Result<(), ExchangeError> {
        self.ask_until(deadline(), request, take)
    }

    /// The same as a part of something that has a deadline as a whole.
    pub(crate) fn ask_until(
        &mut self,
        deadline: Instant,
        request: &[u8],
        take: impl FnMut(Message<'_>) -> Result<(), Malformed>,
    ) -> Result<(), ExchangeError> {
        let answer = self.exchange(deadline, request, take);
        // Given back, what comes next lies where it lay, on pages that are in use.
        self.buffer = Vec::new();
        answer
    }

    fn exchange(
        &mut self,
        deadline: Instant,
        request: &[u8],
        mut take: impl FnMut(Message<'_>) -> Result<(), Malformed>,
    ) -> Result<(), ExchangeError> {
        self.asked = (self.asked + 1) % ASKED;
        let sequence = ASKED | self.asked;
        self.send(&with_sequence(request, sequence))?;
        loop {
            // Whoever made the list long is not listened to without end either.
            left(deadline)?;
            let Some(datagram) = self.receive(deadline)? else { continue };
            if answered(datagram, sequence, &mut take)? {
                return Ok(());
            }
        }
    }

    /// One datagram; none if it is not the kernel's. A longer one than was foreseen is an error, not a cut.
    fn receive(&mut self, deadline: Instant) -> Result<Option<&[u8]>, Errno> {
        // Not by writing zeros: pages that no datagram reaches are never touched.
        self.buffer.clear();
        self.buffer.reserve(DATAGRAM);
        let room = spare_capacity(&mut self.buffer);
        match rustix::net::recvfrom(&self.file, room, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok((_, length, sender)) if is_kernel(sender.as_ref()) => {
                self.buffer.get(..length).map(Some).ok_or(Errno::MSGSIZE)
            }
            Ok(_) | Err(Errno::INTR) => Ok(None),
            Err(Errno::AGAIN) => self.wait(deadline).map(|()| None),
            Err(errno) => Err(errno),
        }
    }

    /// Waits until something can be received.
    fn wait(&self, deadline: Instant) -> Result<(), Errno> {
        let left = Timespec::try_from(left(deadline)?).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

/// Deadline of what begins now.
pub(crate) fn deadline() -> Instant {
    Instant::now() + ANSWER
}

/// Time left until `deadline`; `TIMEDOUT` if none.
fn left(deadline: Instant) -> Result<Duration, Errno> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(Errno::TIMEDOUT),
        left => Ok(left),
    }
}

/// True if the kernel sent it: nobody else has port 0.
fn is_kernel(sender: Option<&SocketAddrAny>) -> bool {
    sender
        .cloned()
        .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
        .is_some_and(|sender| sender.pid() == 0)
}

/// Hands what a datagram says about the request of this sequence number to `take`. True at the end of the answer.
fn answered(
    datagram: &[u8],
    sequence: u32,
    take: &mut impl FnMut(Message<'_>) -> Result<(), Malformed>,
) -> Result<bool, ExchangeError> {
    for message in messages(datagram) {
        let message = message?;
        if message.sequence != sequence {
            continue;
        }
        if message.flags & DUMP_INTERRUPTED != 0 {
            return Err(ExchangeError::Interrupted);
        }
        match message.kind {
            // A list that broke off ends like one that is complete, but for the error number.
            DONE | ERROR => match message.errno()? {
                0 => return Ok(true),
                errno => return Err(ExchangeError::Refused(errno)),
            },
            _ => take(message)?,
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DUMP, Writer};

    const ELEMENT: u16 = 20;
    const OURS: u32 = ASKED | 1;

    fn message(kind: u16, sequence: u32, body: i32) -> Vec<u8> {
        let head = [20_u32.to_ne_bytes(), [kind.to_ne_bytes(), [0; 2]].concat().try_into().unwrap()];
        [head.concat(), sequence.to_ne_bytes().into(), vec![0; 4], body.to_ne_bytes().into()].concat()
    }

    /// Result of a datagram, and its number of list elements.
    fn read(datagram: &[Vec<u8>]) -> (Result<bool, ExchangeError>, usize) {
        let mut elements = 0;
        let answer = answered(&datagram.concat(), OURS, &mut |_| {
            elements += 1;
            Ok(())
        });
        (answer, elements)
    }

    #[test]
    fn a_list_that_broke_off_is_not_taken_for_a_whole_one() {
        let list = |errno: i32| [message(ELEMENT, OURS, 7), message(DONE, OURS, -errno)];
        assert!(matches!(read(&list(0)), (Ok(true), 1)));
        let out_of_memory = Errno::NOMEM.raw_os_error();
        let (answer, elements) = read(&list(out_of_memory));
        assert!(matches!(answer, Err(ExchangeError::Refused(errno)) if errno == out_of_memory), "{answer:?}");
        assert_eq!(elements, 1);
    }

    #[test]
    fn what_answers_another_request_is_passed_over() {
        let others = [message(ELEMENT, OURS + 1, 7), message(ERROR, 1, -1), message(DONE, 0, 0)];
        assert!(matches!(read(&others), (Ok(false), 0)));
    }

    /// A netlink socket that is not connected, and another one that sends to it as a process of the pod could.
    fn with_a_stranger() -> (Socket, OwnedFd, SocketAddrNetlink) {
        let open = || {
            let file = rustix::net::socket_with(
                AddressFamily::NETLINK,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(netlink::USERSOCK),
            );
            let file = file.unwrap();
            rustix::net::bind(&file, &SocketAddrNetlink::new(0, 0)).unwrap();
            file
        };
        let (file, stranger) = (open(), open());
        let address = SocketAddrNetlink::try_from(rustix::net::getsockname(&file).unwrap()).unwrap();
        (Socket { file, buffer: Vec::new(), asked: 0 }, stranger, address)
    }

    #[test]
    fn an_answer_that_is_there_is_not_read_beyond_its_deadline() {
        const RTM_GETADDR: u16 = 22;
        let mut request = Writer::with_capacity(32);
        request.message(RTM_GETADDR, DUMP);
        request.raw([0; 8]);
        let request = request.into_bytes();
        let mut socket = Socket::route().unwrap();
        let late = socket.ask_until(Instant::now(), &request, |_| Ok(()));
        assert!(matches!(late, Err(ExchangeError::System(Errno::TIMEDOUT))), "{late:?}");
        assert!(Socket::route().unwrap().ask(&request, |_| Ok(())).is_ok());
    }

    #[test]
    fn what_another_process_sends_is_no_answer() {
        let (mut socket, stranger, address) = with_a_stranger();
        let send = |bytes: &[u8]| {
            rustix::net::sendto(&stranger, bytes, SendFlags::empty(), &address).unwrap();
        };
        send(&message(ERROR, 1, 0));
        let mut heard = 0;
        socket.acknowledgements(|_, _| heard += 1).unwrap();
        assert_eq!(heard, 0, "an acknowledgement of a transaction");
        send(&message(DONE, OURS, 0));
        let soon = Instant::now() + Duration::from_millis(50);
        assert!(matches!(socket.receive(soon), Ok(None)), "the end of a list");
        send(&vec![0; 2 * DATAGRAM]);
        assert!(matches!(socket.receive(soon), Ok(None)), "too much for an answer");
        assert_eq!(socket.receive(soon), Ok(None), "nothing came in time");
        assert_eq!(socket.receive(Instant::now()), Err(Errno::TIMEDOUT));
    }
}
