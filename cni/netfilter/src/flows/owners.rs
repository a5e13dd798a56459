// SPDX-License-Identifier: Apache-2.0
//! Groups of processes that have sockets open. No listing of sockets has them, and rules ask for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Group of the process that has each of these sockets open, by the socket's inode. A process that ends meanwhile or cannot be read is left
/// out, and so is a socket that processes of different groups share.
pub(super) fn groups(proc: &Path, inodes: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
    let mut found: BTreeMap<u64, Option<u32>> = BTreeMap::new();
    let processes = std::fs::read_dir(proc).into_iter().flatten().flatten();
    for process in
        processes.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
    {
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let sockets = files.filter_map(|file| inode(&std::fs::read_link(file.path()).ok()?));
        let mut sockets = sockets.filter(|inode| inodes.contains(inode)).peekable();
        if sockets.peek().is_none() {
            continue;
        }
        let status = std::fs::read_to_string(process.path().join("status")).unwrap_or_default();
        let Some(group) = group(&status) else { continue };
        for socket in sockets {
            found
                .entry(socket)
                .and_modify(|known| *known = known.filter(|known| *known == group))
                .or_insert(Some(group));
        }
    }
    found.into_iter().filter_map(|(inode, group)| Some((inode, group?))).collect()
}

/// `socket:[INODE]`
fn inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The last of `Gid:` in `status`: the group of files that the process opens.
fn group(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Gid:"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_a_socket_and_a_status_its_group() {
        assert_eq!(inode(Path::new("socket:[4242]")), Some(4242));
        assert_eq!(inode(Path::new("pipe:[4242]")), None);
        assert_eq!(group("Name:\tapp\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n"), Some(8));
        assert_eq!(group("Name:\tapp\n"), None);
    }
}
