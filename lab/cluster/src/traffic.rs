// SPDX-License-Identifier: Apache-2.0
//! Traffic of pods and its answers. Also the line protocol of the lab's processes.

use std::net::IpAddr;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Source ports of a pod's sender (`workload sender`): below those that the kernel chooses, so that no other connection has one of them.
pub const SENDER_PORTS: Range<u16> = 20_001..32_001;

/// UDP port of the caller (`workload caller`), which opens a connection to whoever asks it.
pub const CALLER: u16 = 19_001;

/// TCP port of a sender that asks to be called.
pub const CALLED: u16 = 19_002;

/// Source port of what the caller sends for each connection that got past the proxy, so that packets tell; next to those of senders.
pub const PAST: u16 = SENDER_PORTS.start - 1;

/// Transport protocol of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// A UDP datagram and its answer.
    Udp,
}

/// Traffic for a client to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// TCP or UDP.
    pub transport: Transport,
    /// Destination. Host names are never resolved.
    pub destination: IpAddr,
    /// Destination port.
    pub port: u16,
    /// The sending socket's user.
    pub uid: u32,
    /// The sending socket's primary group.
    pub gid: u32,
    /// Source port to bind to; the kernel chooses if it is 0.
    #[serde(default)]
    pub source_port: u16,
}

/// Origin of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Answer {
    /// A listener of an app answered.
    App {
        /// The port that it listens on.
        port: u16,
        /// The client's address as the app saw it.
        peer: String,
        /// Proxies on the way, first one first.
        #[serde(default)]
        via: Vec<ProxyHop>,
    },
    /// A proxy stand-in answered by itself (it had nowhere to forward to).
    Proxy {
        /// The hop.
        hop: ProxyHop,
    },
    /// Nobody listens: connection refused or ICMP unreachable.
    Refused,
    /// Nothing before the deadline.
    Silence,
}

/// Observation of a proxy stand-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyHop {
    /// The port that it was reached on (15001, 15006, …).
    pub port: u16,
    /// The original destination (`SO_ORIGINAL_DST`), `address:port`.
    pub original: String,
    /// The client's address as the proxy saw it.
    pub peer: String,
}

/// A TCP segment of a connection that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// Destination.
    pub destination: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Kind of the segment.
    pub segment: Segment,
}

/// Segments that conntrack calls invalid where it knows no connection. (A mere ACK it takes for one that it missed.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Segment {
    /// The end of a connection.
    FinAck,
    /// The answer to a beginning.
    SynAck,
}

/// Answer to a [`Stray`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrayEnding {
    /// A reset: the segment reached the addressee's TCP.
    Reset,
    /// Nothing, though a later segment was answered.
    Nothing,
}
