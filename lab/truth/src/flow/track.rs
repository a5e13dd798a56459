// SPDX-License-Identifier: Apache-2.0
//! Conntrack, as far as one connection goes: an entry in each zone that a packet of it was put in.

use std::net::SocketAddr;

use redirect::packet::Connection;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From who began.
    Forward,
    /// To who began.
    Back,
}

/// An entry.
struct Entry {
    zone: u16,
    /// The direction of the packet that made it.
    made_by: Direction,
    is_answered: bool,
    mark: u32,
    redirected: Option<(SocketAddr, SocketAddr)>,
}

pub(super) struct Tracker {
    /// False if conntrack finds these packets INVALID.
    places: bool,
    entries: Vec<Entry>,
}

impl Tracker {
    pub(super) fn new(places: bool) -> Self {
        Self { places, entries: Vec::new() }
    }

    /// Conntrack state of a packet in `zone`, and the connection's mark: a connection is looked up in the
    /// packet's own zone, and one that is not found there begins there (resolve_normal_ct).
    pub(super) fn find(&mut self, direction: Direction, zone: u16) -> (Connection, u32) {
        if !self.places {
            return (Connection::Invalid, 0);
        }
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.zone == zone) else {
            let entry = Entry { zone, made_by: direction, is_answered: false, mark: 0, redirected: None };
            self.entries.push(entry);
            return (Connection::New, 0);
        };
        entry.is_answered |= entry.made_by != direction;
        let connection = if entry.is_answered { Connection::Established } else { Connection::New };
        (connection, entry.mark)
    }

    /// Keeps the mark that a packet left with the connection.
    pub(super) fn note(&mut self, zone: u16, mark: u32) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.zone == zone) {
            entry.mark = mark;
        }
    }

    /// Keeps where the connection was redirected from and to.
    pub(super) fn redirect(&mut self, zone: u16, before: SocketAddr, to: SocketAddr) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.zone == zone) {
            entry.redirected = Some((before, to));
        }
    }

    /// Where a packet of this direction in this zone was and is addressed to, if that differs. An entry that an answer
    /// made knows nothing of the question's.
    pub(super) fn redirected(&self, direction: Direction, zone: u16) -> Option<(SocketAddr, SocketAddr)> {
        let entry = self.entries.iter().find(|entry| entry.zone == zone)?;
        if direction == Direction::Back && entry.made_by == Direction::Back {
            return None;
        }
        entry.redirected
    }

    /// True if both directions share an entry, or none redirects.
    pub(super) fn is_one(&self) -> bool {
        self.entries.len() <= 1 || self.entries.iter().all(|entry| entry.redirected.is_none())
    }
}
