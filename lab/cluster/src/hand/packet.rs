// SPDX-License-Identifier: Apache-2.0
//! Packets that a capture saw.

use std::net::IpAddr;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A packet on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Time of the kernel, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Interface.
    pub interface: String,
    /// Direction.
    pub direction: Direction,
    /// Its flow.
    pub flow: Flow,
    /// Length in bytes, from the IP header on.
    pub length: u32,
}

/// Direction of a packet, as seen from the network namespace. What is sent over `lo` is seen twice, once in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It comes.
    In,
    /// It leaves.
    Out,
}

/// Addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Flow {
    /// Source.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// What the IP header is followed by.
    pub transport: Transport,
}

/// Header behind that of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Port.
        source: u16,
        /// Port.
        destination: u16,
    },
    /// UDP.
    Udp {
        /// Port.
        source: u16,
        /// Port.
        destination: u16,
    },
    /// ICMP of the packet's family.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
    /// Another protocol, or a fragment behind the first.
    Other(u8),
}

impl Transport {
    /// True if one of its ports is among these.
    #[must_use]
    pub fn has_one_of(&self, ports: &Range<u16>) -> bool {
        match self {
            Self::Tcp { source, destination } | Self::Udp { source, destination } => {
                ports.contains(source) || ports.contains(destination)
            }
            Self::Icmp { .. } | Self::Other(_) => false,
        }
    }
}

/// Sum of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets of each flow.
    pub flows: Vec<Count>,
    /// Packets that are in no count: not of IP, cut short, or of flows beyond the number that is remembered.
    pub others: u64,
    /// Packets that the kernel dropped because the hand was too slow: with any, a count of 0 means nothing.
    pub lost: u64,
}

impl Counts {
    /// Packets of the flows that `of` takes.
    #[must_use]
    pub fn sum(&self, of: impl Fn(&Count) -> bool) -> u64 {
        self.flows.iter().filter(|count| of(count)).map(|count| count.packets).sum()
    }
}

/// Packets of a flow, on one interface and in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Flow.
    pub flow: Flow,
    /// Interface.
    pub interface: String,
    /// Direction.
    pub direction: Direction,
    /// Number.
    pub packets: u64,
}
