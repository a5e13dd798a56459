// SPDX-License-Identifier: Apache-2.0
//! User namespaces for people without root: with the range of users that the machine grants them, or else with one user.
//!
//! A rule that names user 1337 can only be set where 1337 is mapped, so the range decides how much can run.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use nix::sched::CloneFlags;
use nix::unistd::{Gid, Pid, Uid};

use crate::carried::SELF;

/// A range of `/etc/subuid` or `/etc/subgid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u32,
    count: u32,
}

/// Enters a user namespace together with others, as its root. Returns the mapping and where it comes from.
pub(super) fn enter_user_namespace(others: CloneFlags) -> anyhow::Result<String> {
    let (uid, gid) = (Uid::current(), Gid::current());
    // Only a process outside the namespace may write a mapping of several users.
    let helper = start_helper()?;
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER | others).context("unshare(user, pid, mount, network)")?;
    let how = match finish(helper) {
        Ok(()) if uid.is_root() => "by root".to_owned(),
        Ok(()) => "by newuidmap and newgidmap".to_owned(),
        Err(error) => {
            map_one(uid, gid)?;
            format!("one user only, because {error:#}")
        }
    };
    let map = std::fs::read_to_string("/proc/self/uid_map")?;
    let lines: Vec<_> =
        map.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Ok(format!("uid_map {:?} {how}", lines.join(", ")))
}

fn start_helper() -> anyhow::Result<Child> {
    Command::new(SELF)
        .args(["map-ids", &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start a helper")
}

fn finish(mut helper: Child) -> anyhow::Result<()> {
    if let Some(mut stdin) = helper.stdin.take() {
        stdin.write_all(b"!")?;
    }
    let output = helper.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn map_one(uid: Uid, gid: Gid) -> anyhow::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    Ok(())
}

/// The helper: waits until the process is in its namespace, then maps its users and groups.
pub fn map_ids(pid: Pid) -> anyhow::Result<()> {
    std::io::stdin().read_exact(&mut [0]).context("nobody asked for a mapping")?;
    let (uid, gid) = (Uid::current(), Gid::current());
    if uid.is_root() {
        return map_all(pid);
    }
    let user = name_of(&std::fs::read_to_string("/etc/passwd").unwrap_or_default(), uid.as_raw());
    map("newuidmap", pid, uid.as_raw(), granted("/etc/subuid", &user, uid)?)?;
    map("newgidmap", pid, gid.as_raw(), granted("/etc/subgid", &user, uid)?)
}

/// True if root of the whole machine asks, in no container: there the kernel gives a user namespace all users, and a `/proc` of its own
/// (`mount_too_revealing` in `fs/namespace.c`: not where something covers parts of ours).
pub fn can_give_all() -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let is_allowed =
        read("/proc/sys/user/max_user_namespaces").trim().parse().is_ok_and(|most: u64| most > 0);
    is_allowed
        && Uid::current().is_root()
        && is_whole(&read("/proc/self/uid_map"), &read("/proc/self/mountinfo"), &read("/proc/self/status"))
}

/// All users are there, nothing covers a part of `/proc` but the empty directory of `binfmt_misc`, and no filter of system calls is set.
fn is_whole(uid_map: &str, mounts: &str, status: &str) -> bool {
    let all = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    let covers = |line: &str| {
        let at = line.split(' ').nth(4).unwrap_or_default();
        at.starts_with("/proc/") && at != "/proc/sys/fs/binfmt_misc"
    };
    let is_filtered = |line: &str| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() != "0");
    all && !mounts.lines().any(covers) && !status.lines().any(is_filtered)
}

/// Root's: all users and groups are those of the machine, and no capability counts there.
fn map_all(pid: Pid) -> anyhow::Result<()> {
    for (map, own) in [("uid_map", "/proc/self/uid_map"), ("gid_map", "/proc/self/gid_map")] {
        let file = format!("/proc/{pid}/{map}");
        let own = std::fs::read_to_string(own)?;
        std::fs::write(&file, identity(&own)?).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

/// The mapping of all ids of a namespace with this one to themselves.
fn identity(map: &str) -> anyhow::Result<String> {
    let same = |line: &str| {
        let mut fields = line.split_whitespace();
        let (own, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(format!("{own} {own} {count}\n"))
    };
    map.lines().map(same).collect::<Option<String>>().context("a map of ids has three columns")
}

/// The user's name as `/etc/passwd` has it. The C library would load the machine's name services for it, which a static binary of glibc
/// does not survive; who is listed elsewhere needs a range by number.
fn name_of(passwd: &str, uid: u32) -> String {
    let number = uid.to_string();
    let own = passwd.lines().find(|line| line.split(':').nth(2) == Some(&number));
    own.and_then(|line| line.split(':').next()).unwrap_or_default().to_owned()
}

fn granted(file: &str, user: &str, uid: Uid) -> anyhow::Result<Range> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    range_of(&text, user, uid.as_raw()).with_context(|| format!("{file} grants nothing to uid {uid}"))
}

/// The largest range that a line `user:start:count` grants, by name or by number.
fn range_of(text: &str, user: &str, uid: u32) -> Option<Range> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let owner = fields.next()?;
            let range = Range { start: fields.next()?.parse().ok()?, count: fields.next()?.parse().ok()? };
            (owner == user || owner == uid.to_string()).then_some(range)
        })
        .max_by_key(|range| range.count)
}

fn map(tool: &str, pid: Pid, own: u32, range: Range) -> anyhow::Result<()> {
    let output = Command::new(tool)
        .args([pid.to_string(), "0".into(), own.to_string(), "1".into()])
        .args(["1".to_owned(), range.start.to_string(), range.count.to_string()])
        .output()
        .with_context(|| format!("{tool} cannot be run"))?;
    if !output.status.success() {
        bail!("{tool} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_as_in_the_file() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/home/ana:/bin/sh\n";
        assert_eq!(identity("0 0 4294967295\n").unwrap(), "0 0 4294967295\n");
        assert_eq!(identity(" 0 1000 1\n 1 100000 65536\n").unwrap(), "0 0 1\n1 1 65536\n");
        assert_eq!((name_of(passwd, 1000), name_of(passwd, 7)), ("ana".to_owned(), String::new()));
    }

    #[test]
    fn only_root_of_the_whole_machine_gives_everything() {
        let all = "         0          0 4294967295\n";
        let proc = "22 28 0:21 / /proc rw - proc proc rw\n";
        let binfmt = "40 22 0:35 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n";
        let masked = "41 22 0:36 / /proc/kcore rw - tmpfs tmpfs rw\n";
        let status = |mode: u8| format!("Name:\tx\nSeccomp:\t{mode}\nSeccomp_filters:\t{mode}\n");
        assert!(is_whole(all, &format!("{proc}{binfmt}"), &status(0)));
        assert!(!is_whole("0 100000 65536\n", proc, &status(0)));
        assert!(!is_whole(all, &format!("{proc}{masked}"), &status(0)));
        assert!(!is_whole(all, proc, &status(2)));
    }

    #[test]
    fn the_largest_range_of_a_name_or_number_is_taken() {
        let text = "root:1:2\nann:100000:10\nann:200000:65536\n1000:5:5\nbroken\n";
        assert_eq!(range_of(text, "ann", 7), Some(Range { start: 200_000, count: 65_536 }));
        assert_eq!(range_of(text, "bob", 1000), Some(Range { start: 5, count: 5 }));
        assert_eq!(range_of(text, "bob", 1001), None);
    }
}
