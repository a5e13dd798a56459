// SPDX-License-Identifier: Apache-2.0
//! A namespace's `lo`: up, and with the addresses that a pod would have on another interface. Which interface it is does not
//! matter to what is tested, and no program is needed.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_ACK`
const CHANGE: u16 = 0x005;
/// The same with `NLM_F_CREATE | NLM_F_EXCL`
const CREATE: u16 = 0x605;
const LO: u32 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `IFA_F_NODAD`
const NO_DUPLICATE_DETECTION: u8 = 2;

/// Sends one request and expects the kernel's consent.
fn ask((kind, flags): (u16, u16), body: &[u8]) {
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .unwrap();
    let length = u32::try_from(16 + body.len()).unwrap();
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    sendto(socket.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty()).unwrap();
    let mut answer = [0; 256];
    recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
    let error = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
    assert_eq!(error, 0, "{}", std::io::Error::from_raw_os_error(-error));
}

/// Sets it up, with these addresses.
pub(crate) fn up(addresses: &[&str]) {
    let mut link = vec![0; 4];
    link.extend(LO.to_ne_bytes());
    // IFF_UP, as value and as mask.
    link.extend([1, 0, 0, 0, 1, 0, 0, 0]);
    ask((RTM_NEWLINK, CHANGE), &link);
    for address in addresses {
        let address: IpAddr = address.parse().unwrap();
        let (family, bytes) = match address {
            IpAddr::V4(v4) => (2, v4.octets().to_vec()),
            IpAddr::V6(v6) => (10, v6.octets().to_vec()),
        };
        let bits = u8::try_from(8 * bytes.len()).unwrap();
        let mut body = vec![family, bits, NO_DUPLICATE_DETECTION, 0];
        body.extend(LO.to_ne_bytes());
        for attribute in [IFA_LOCAL, IFA_ADDRESS] {
            body.extend(u16::try_from(4 + bytes.len()).unwrap().to_ne_bytes());
            body.extend(attribute.to_ne_bytes());
            body.extend(&bytes);
        }
        ask((RTM_NEWADDR, CREATE), &body);
    }
}
