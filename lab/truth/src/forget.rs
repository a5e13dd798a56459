// SPDX-License-Identifier: Apache-2.0
//! Makes the calling thread's namespace forget what went before: one configuration must not see another's rules or connections.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use netfilter::Backend;
use nix::sys::socket::{MsgFlags, recv, send};

use crate::nfnetlink::{ANSWERED, REQUEST, message, open};

/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`, and the sub-system that they name.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NF_TABLES: [u8; 2] = [0, 10];
/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE`
const DELETE_TABLES: u16 = 10 << 8 | 2;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`
const DELETE_CONNECTIONS: u16 = 1 << 8 | 2;

/// All connections: a port may be used again as if for the first time.
pub fn connections() -> anyhow::Result<()> {
    ask(&message(DELETE_CONNECTIONS, ANSWERED, 0, [0, 0]))
}

/// All rules, through whatever back end they came.
pub fn rules(backend: Backend) -> anyhow::Result<()> {
    match backend {
        Backend::NftCompat | Backend::Nft | Backend::IptablesNft => tables(),
        Backend::IptablesLegacy => {
            ["iptables-legacy-restore", "ip6tables-legacy-restore"].into_iter().try_for_each(empty)
        }
    }
}

/// All rules of whoever chose a back end by itself.
pub fn every_rule() -> anyhow::Result<()> {
    tables()?;
    let is_used = |file: &str| {
        let path = std::path::Path::new("/proc/thread-self/net").join(file);
        std::fs::read_to_string(path).is_ok_and(|names| !names.is_empty())
    };
    if ["ip_tables_names", "ip6_tables_names"].into_iter().any(is_used) {
        rules(Backend::IptablesLegacy)?;
    }
    Ok(())
}

/// Empties the legacy tables that rules of ours can be in, and leaves them there.
fn empty(tool: &str) -> anyhow::Result<()> {
    let mut command = Command::new(tool);
    let mut child =
        command.arg("--wait=30").stdin(Stdio::piped()).spawn().with_context(|| tool.to_owned())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"*raw\nCOMMIT\n*mangle\nCOMMIT\n*nat\nCOMMIT\n")?;
    }
    let ended = child.wait()?;
    ensure!(ended.success(), "{tool} ended with {ended}");
    Ok(())
}

/// All tables of nf_tables.
fn tables() -> anyhow::Result<()> {
    let batch = [
        message(BATCH_BEGIN, REQUEST, 0, NF_TABLES),
        // Without anything behind it, a deletion means all.
        message(DELETE_TABLES, ANSWERED, 0, [0, 0]),
        message(BATCH_END, REQUEST, 0, NF_TABLES),
    ];
    ask(&batch.concat())
}

fn ask(request: &[u8]) -> anyhow::Result<()> {
    let fd = open()?;
    send(fd.as_raw_fd(), request, MsgFlags::empty())?;
    let mut answer = [0; 256];
    let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let errno = answer.get(16..20).filter(|_| length >= 20).and_then(|errno| errno.try_into().ok());
    match errno.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        other => bail!("the kernel did not forget: {other:?}"),
    }
}
