// SPDX-License-Identifier: Apache-2.0
//! The links of the calling thread's namespace, over netlink: no program is needed, and nothing of what is tested is in between.

use std::net::IpAddr;

use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags};
use rtnetlink::{Error, Handle, LinkUnspec};

/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;

/// Asks the kernel, in a runtime that has no thread of its own.
pub fn ask<T>(work: impl AsyncFnOnce(Handle) -> Result<T, Error>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().unwrap();
        let connection = tokio::spawn(connection);
        let answer = work(handle).await.unwrap();
        connection.abort();
        answer
    })
}

/// Adds an address that can be used at once.
pub async fn add_address(handle: &Handle, link: u32, address: IpAddr, length: u8) -> Result<(), Error> {
    let mut request = handle.address().add(link, address, length);
    if address.is_ipv6() {
        let message = request.message_mut();
        message.header.flags |= AddressHeaderFlags::Nodad;
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    request.execute().await
}

/// Sets `lo` up, with the addresses that a pod would have on another interface. Which one it is does not matter to most tests.
pub fn up(addresses: &[&str]) {
    ask(async |handle| {
        handle.link().change(LinkUnspec::new_with_index(LOOPBACK).up().build()).execute().await?;
        for address in addresses {
            let address: IpAddr = address.parse().unwrap();
            let whole = if address.is_ipv4() { 32 } else { 128 };
            add_address(&handle, LOOPBACK, address, whole).await?;
        }
        Ok(())
    });
}
