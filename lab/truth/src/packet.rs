// SPDX-License-Identifier: Apache-2.0
//! A packet to send: where from, where to, whose.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use redirect::packet::{Connection, Hook, Layer4, Packet};
use redirect::ruleset::Family;
use serde::{Deserialize, Serialize};

use crate::flow::{Owner, Shape};
use crate::net::{self, Place};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The first of a connection.
    Tcp,
    /// A datagram.
    Udp,
    /// An ICMP echo request.
    Echo,
    /// A TCP segment that conntrack cannot place: FIN, and nothing else.
    Stray,
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// Its sender.
    pub from: Place,
    pub kind: Kind,
    /// Its source address.
    pub source: IpAddr,
    /// Its source port; the next free one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Its destination.
    pub destination: SocketAddr,
    /// Its sender, where that is somebody in the pod.
    pub sender: Owner,
    /// The mark of its socket.
    pub mark: u32,
}

impl std::hash::Hash for Place {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (*self as u8).hash(state);
    }
}

impl Spec {
    /// The family.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.destination.ip())
    }

    /// The namespace that the destination is in.
    #[must_use]
    pub fn place(&self) -> Place {
        let address = self.destination.ip();
        let family = self.family();
        let local = address.is_loopback() || [net::pod(family), net::gate(family)].contains(&address);
        if local { Place::Pod } else { Place::Outside }
    }

    /// As the evaluator takes it.
    #[must_use]
    pub fn packet(&self, source_port: u16) -> Packet {
        let (source, destination) = (source_port, self.destination.port());
        let leaves = self.from == Place::Pod;
        Packet {
            hook: if leaves { Hook::Output } else { Hook::Prerouting },
            source: self.source,
            destination: self.destination.ip(),
            layer4: match (self.kind, self.family()) {
                (Kind::Tcp | Kind::Stray, _) => Layer4::Tcp { source, destination },
                (Kind::Udp, _) => Layer4::Udp { source, destination },
                (Kind::Echo, Family::V4) => Layer4::Other(1),
                (Kind::Echo, Family::V6) => Layer4::Other(58),
            },
            interface: if self.from == Place::Guest { net::GUEST } else { net::OUTSIDE }.into(),
            uid: leaves.then_some(self.sender.uid),
            gid: leaves.then_some(self.sender.gid),
            connection: Connection::New,
            mark: if leaves { self.mark } else { 0 },
            connmark: 0,
        }
    }

    /// Course of its connection.
    #[must_use]
    pub fn shape(&self) -> Shape {
        match self.kind {
            Kind::Tcp => Shape::Stream,
            Kind::Udp => Shape::Exchange,
            Kind::Echo => Shape::Echo,
            Kind::Stray => Shape::Stray,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.from {
            Place::Pod => "out",
            Place::Outside => "in",
            Place::Guest => "guest",
        };
        let kind = match self.kind {
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Echo => "echo",
            Kind::Stray => "stray",
        };
        write!(out, "{from} {kind} {} from {}", self.destination, self.source)?;
        if let Some(port) = self.source_port {
            write!(out, " sport {port}")?;
        }
        if self.from == Place::Pod {
            write!(out, " uid {} gid {}", self.sender.uid, self.sender.gid)?;
        }
        if self.mark != 0 {
            write!(out, " mark {}", self.mark)?;
        }
        Ok(())
    }
}
