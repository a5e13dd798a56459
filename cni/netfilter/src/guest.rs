// SPDX-License-Identifier: Apache-2.0
//! Links of the namespace that can lead to a guest: tap devices, and interfaces whose incoming packets traffic control redirects. Reads only; what
//! it means is up to [`redirect::sandbox`].

use std::collections::BTreeMap;
use std::io;

use redirect::sandbox::{Diverted, GuestLinks};
use rustix::io::Errno;

use crate::address::{ATTEMPTS, AddressError, Rtnetlink};
use crate::netlink::{ExchangeError, deadline};
use crate::wire::{DUMP, Malformed, Message, Writer, attributes, fixed, text};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;
/// Length of `struct tcmsg`.
const TRAFFIC_HEADER: usize = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
/// `IFLA_TUN_TYPE`
const TUN_TYPE: u16 = 3;
/// `IFF_TAP`
const TAP: u8 = 2;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// Kinds of qdiscs with filters for incoming packets, and the parent of those filters.
const INGRESS: [(&[u8], u32); 2] = [(b"ingress", 0xffff_0000), (b"clsact", 0xffff_fff2)];
/// Attribute of a filter's options that lists its actions, by the filter's kind (`TCA_U32_ACT` and so on).
const ACTIONS: [(&[u8], u16); 6] =
    [(b"u32", 7), (b"matchall", 2), (b"flower", 3), (b"basic", 3), (b"fw", 4), (b"bpf", 1)];
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
/// Length of `tc_gen`, which `struct tc_mirred` begins with.
const ACTION_HEADER: usize = 20;
/// `TCA_EGRESS_REDIR` and `TCA_INGRESS_REDIR`; the others mirror, and the packet goes on.
const REDIRECTS: [i32; 2] = [1, 3];

/// Failure to read links or filters.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// No rtnetlink socket.
    #[error(transparent)]
    Socket(#[from] AddressError),
    /// The kernel refused, or the socket failed.
    #[error("list {0}")]
    List(&'static str, #[source] io::Error),
    /// A reply that cannot be read.
    #[error("list {0}: malformed reply from the kernel")]
    Malformed(&'static str),
    /// The list changed each time it was read.
    #[error("list {0}: they kept changing")]
    Busy(&'static str),
}

/// A link of the namespace.
struct Link {
    name: String,
    is_tap: bool,
}

impl Rtnetlink {
    /// Links that can lead to a guest.
    ///
    /// # Errors
    /// If rtnetlink fails. A kernel without traffic control has no filters.
    pub fn guest_links(&mut self) -> Result<GuestLinks, GuestError> {
        let links = self.links()?;
        let taps = links.values().filter(|link| link.is_tap).map(|link| link.name.clone()).collect();
        let mut diverted = Vec::new();
        for (interface, parent) in self.ingress()? {
            let Some(link) = links.get(&interface) else { continue };
            for to in self.redirects(interface, parent)? {
                let to = links.get(&to).map_or_else(|| format!("interface {to}"), |link| link.name.clone());
                let one = Diverted { from: link.name.clone(), to };
                if !diverted.contains(&one) {
                    diverted.push(one);
                }
            }
        }
        Ok(GuestLinks { taps, diverted })
    }

    fn links(&mut self) -> Result<BTreeMap<u32, Link>, GuestError> {
        let mut request = Writer::with_capacity(32);
        request.message(RTM_GETLINK, DUMP);
        request.raw([0; LINK_HEADER]);
        let found = self.listed("links", &request.into_bytes(), |message| {
            if message.kind == RTM_NEWLINK { link(message.body).map(Some) } else { Ok(None) }
        })?;
        Ok(found.into_iter().collect())
    }

    /// Interfaces with filters for incoming packets, and the parent of these.
    fn ingress(&mut self) -> Result<Vec<(u32, u32)>, GuestError> {
        let mut request = Writer::with_capacity(40);
        request.message(RTM_GETQDISC, DUMP);
        request.raw([0; TRAFFIC_HEADER]);
        self.listed("qdiscs", &request.into_bytes(), |message| {
            if message.kind == RTM_NEWQDISC { ingress(message.body) } else { Ok(None) }
        })
    }

    fn redirects(&mut self, interface: u32, parent: u32) -> Result<Vec<u32>, GuestError> {
        let mut request = Writer::with_capacity(40);
        request.message(RTM_GETTFILTER, DUMP);
        request.raw([0; 4]);
        request.raw(interface.to_ne_bytes());
        request.raw([0; 4]);
        request.raw(parent.to_ne_bytes());
        request.raw([0; 4]);
        let found = self.listed("ingress filters", &request.into_bytes(), |message| {
            if message.kind == RTM_NEWTFILTER { redirects(message.body).map(Some) } else { Ok(None) }
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    fn listed<T>(
        &mut self,
        of: &'static str,
        request: &[u8],
        read: impl Fn(Message<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, GuestError> {
        let deadline = deadline();
        for _ in 0..ATTEMPTS {
            let mut found = Vec::new();
            let answer = self.socket().ask_until(deadline, request, |message| {
                found.extend(read(message)?);
                Ok(())
            });
            let errno = match answer {
                Ok(()) => return Ok(found),
                // The rest of this list is still to come: it must not be taken for the next one.
                Err(ExchangeError::Interrupted) => {
                    *self = Self::open()?;
                    continue;
                }
                Err(ExchangeError::Malformed) => return Err(GuestError::Malformed(of)),
                Err(ExchangeError::System(errno)) => errno,
                Err(ExchangeError::Refused(errno)) => Errno::from_raw_os_error(errno),
            };
            // Without traffic control in the kernel, and where an interface or a qdisc went meanwhile.
            return match errno {
                Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL | Errno::NOENT if of != "links" => {
                    Ok(Vec::new())
                }
                errno => Err(GuestError::List(of, errno.into())),
            };
        }
        Err(GuestError::Busy(of))
    }
}

/// The payload of the first attribute of this type.
fn find(bytes: &[u8], wanted: u16) -> Result<Option<&[u8]>, Malformed> {
    for attribute in attributes(bytes) {
        let (kind, payload) = attribute?;
        if kind == wanted {
            return Ok(Some(payload));
        }
    }
    Ok(None)
}

fn link(body: &[u8]) -> Result<(u32, Link), Malformed> {
    let (header, rest) = body.split_at_checked(LINK_HEADER).ok_or(Malformed)?;
    let index = u32::from_ne_bytes(fixed(header.get(4..8))?);
    let name = String::from_utf8_lossy(text(find(rest, IFLA_IFNAME)?.unwrap_or_default())).into_owned();
    let info = find(rest, IFLA_LINKINFO)?.unwrap_or_default();
    let is_tap = match text(find(info, IFLA_INFO_KIND)?.unwrap_or_default()) {
        b"macvtap" | b"ipvtap" => true,
        b"tun" => {
            find(find(info, IFLA_INFO_DATA)?.unwrap_or_default(), TUN_TYPE)?.is_some_and(|kind| kind == [TAP])
        }
        _ => false,
    };
    Ok((index, Link { name, is_tap }))
}

fn traffic(body: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let (header, rest) = body.split_at_checked(TRAFFIC_HEADER).ok_or(Malformed)?;
    Ok((u32::from_ne_bytes(fixed(header.get(4..8))?), rest))
}

fn ingress(body: &[u8]) -> Result<Option<(u32, u32)>, Malformed> {
    let (interface, rest) = traffic(body)?;
    let kind = text(find(rest, TCA_KIND)?.unwrap_or_default());
    Ok(INGRESS.iter().find(|(known, _)| *known == kind).map(|(_, parent)| (interface, *parent)))
}

/// Interfaces that a filter's actions redirect to.
fn redirects(body: &[u8]) -> Result<Vec<u32>, Malformed> {
    let (_, rest) = traffic(body)?;
    let kind = text(find(rest, TCA_KIND)?.unwrap_or_default());
    let options = find(rest, TCA_OPTIONS)?.unwrap_or_default();
    let Some((_, actions)) = ACTIONS.iter().find(|(known, _)| *known == kind) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for action in attributes(find(options, *actions)?.unwrap_or_default()) {
        let (_order, action) = action?;
        if text(find(action, TCA_ACT_KIND)?.unwrap_or_default()) != b"mirred" {
            continue;
        }
        let options = find(action, TCA_ACT_OPTIONS)?.unwrap_or_default();
        let Some(parameters) = find(options, TCA_MIRRED_PARMS)? else { continue };
        let [a0, a1, a2, a3, to @ ..]: [u8; 8] = fixed(parameters.get(ACTION_HEADER..ACTION_HEADER + 8))?;
        if REDIRECTS.contains(&i32::from_ne_bytes([a0, a1, a2, a3])) {
            found.push(u32::from_ne_bytes(to));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (link(&body), ingress(&body), redirects(&body));
        }
    }

    /// A u32 filter as Kata writes it: everything goes to interface 3.
    fn filter(action: i32) -> Vec<u8> {
        let mut message = Writer::with_capacity(200);
        message.message(RTM_NEWTFILTER, 0);
        message.raw([0; TRAFFIC_HEADER]);
        message.name(TCA_KIND, b"u32");
        let options = message.nest(TCA_OPTIONS);
        let actions = message.nest(7);
        let first = message.nest(1);
        message.name(TCA_ACT_KIND, b"mirred");
        let mirred = message.nest(TCA_ACT_OPTIONS);
        let mut parameters = [0; ACTION_HEADER + 8];
        parameters[ACTION_HEADER..ACTION_HEADER + 4].copy_from_slice(&action.to_ne_bytes());
        parameters[ACTION_HEADER + 4..].copy_from_slice(&3_u32.to_ne_bytes());
        message.attribute(TCA_MIRRED_PARMS, parameters);
        message.close(mirred);
        message.close(first);
        message.close(actions);
        message.close(options);
        message.into_bytes()[16..].to_vec()
    }

    #[test]
    fn a_redirect_is_read_and_a_mirror_is_none() {
        assert_eq!(redirects(&filter(1)), Ok(vec![3]));
        assert_eq!(redirects(&filter(3)), Ok(vec![3]));
        assert_eq!(redirects(&filter(2)), Ok(Vec::new()), "the packet itself goes on");
    }
}
