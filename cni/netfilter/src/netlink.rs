// SPDX-License-Identifier: Apache-2.0
//! A netlink socket of the calling thread's namespace: sends requests, receives datagrams. What is in them is up to others.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, sockopt};

use crate::wire::{DONE, DUMP_INTERRUPTED, ERROR, Malformed, Message, acknowledgement, messages};

/// What the kernel writes at most into one datagram of a list.
const DATAGRAM: usize = 32 * 1024;
/// Why an exchange with the kernel failed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExchangeError {
    /// A system call failed.
    System(Errno),
    /// The kernel answered with this error number.
    Refused(i32),
    /// What is listed changed meanwhile.
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
}

impl Socket {
    /// A socket to nfnetlink.
    pub(crate) fn netfilter() -> Result<Self, Errno> {
        Self::open(Some(netlink::NETFILTER))
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
        Ok(Self { file, buffer: Vec::new() })
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

    /// Hands every acknowledgement and error that waits to `take` (sequence number of the message it is about, error number),
    /// without waiting for more.
    pub(crate) fn acknowledgements(&self, mut take: impl FnMut(u32, i32)) -> Result<(), ExchangeError> {
        // An error repeats the message that it is about; of that only the head is looked at.
        let mut head = [0; 64];
        loop {
            match rustix::net::recv(&self.file, &mut head, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let (sequence, errno) = acknowledgement(head.get(..length).unwrap_or_default())?;
                    take(sequence, errno);
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
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
        let answer = self.exchange(request, take);
        // Given back, what comes next lies where it lay, on pages that are in use.
        self.buffer = Vec::new();
        answer
    }

    fn exchange(
        &mut self,
        request: &[u8],
        mut take: impl FnMut(Message<'_>) -> Result<(), Malformed>,
    ) -> Result<(), ExchangeError> {
        self.send(request)?;
        loop {
            let datagram = match self.receive(RecvFlags::empty()) {
                Ok(datagram) => datagram,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for message in messages(datagram) {
                let message = message?;
                if message.flags & DUMP_INTERRUPTED != 0 {
                    return Err(ExchangeError::Interrupted);
                }
                match message.kind {
                    // A list that broke off ends like one that is complete, but for the error number.
                    DONE | ERROR => match message.errno()? {
                        0 => return Ok(()),
                        errno => return Err(ExchangeError::Refused(errno)),
                    },
                    _ => take(message)?,
                }
            }
        }
    }

    /// One datagram. A longer one than was foreseen is an error, not a cut.
    fn receive(&mut self, flags: RecvFlags) -> Result<&[u8], Errno> {
        // Not by writing zeros: pages that no datagram reaches are never touched.
        self.buffer.clear();
        self.buffer.reserve(DATAGRAM);
        let room = spare_capacity(&mut self.buffer);
        let (_, length) = rustix::net::recv(&self.file, room, flags | RecvFlags::TRUNC)?;
        self.buffer.get(..length).ok_or(Errno::MSGSIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a question that is answered with an element of a list and its end, which carries this error number.
    fn list_ending_with(errno: i32) -> (Result<(), ExchangeError>, usize) {
        const ELEMENT: u16 = 20;
        let flags = SocketFlags::empty();
        let (file, kernel) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let message = |kind: u16, body: i32| {
            let head = [20_u32.to_ne_bytes(), [kind.to_ne_bytes(), [0; 2]].concat().try_into().unwrap()];
            [head.concat(), vec![0; 8], body.to_ne_bytes().to_vec()].concat()
        };
        let datagram = [message(ELEMENT, 7), message(DONE, -errno)].concat();
        rustix::net::send(&kernel, &datagram, SendFlags::empty()).unwrap();
        let mut elements = 0;
        let mut socket = Socket { file, buffer: Vec::new() };
        let answer = socket.ask(&message(ELEMENT, 0), |_| {
            elements += 1;
            Ok(())
        });
        (answer, elements)
    }

    #[test]
    fn a_list_that_broke_off_is_not_taken_for_a_whole_one() {
        assert!(matches!(list_ending_with(0), (Ok(()), 1)));
        let out_of_memory = Errno::NOMEM.raw_os_error();
        let (answer, elements) = list_ending_with(out_of_memory);
        assert!(matches!(answer, Err(ExchangeError::Refused(errno)) if errno == out_of_memory), "{answer:?}");
        assert_eq!(elements, 1);
    }
}
