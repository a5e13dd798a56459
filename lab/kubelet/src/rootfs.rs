// SPDX-License-Identifier: Apache-2.0
//! A container's view of the file system: a root of its own, with its image's files and its volumes in it and nothing of the machine; or
//! the lab's, with bind mounts. And that of a node.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, pivot_root};
use rustix::fs::{StatVfsMountFlags, statvfs};

use crate::error::Error;

/// Devices that every container has.
const DEVICES: [&str; 5] = ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// What a node has of the machine: programs, their libraries, devices.
const MACHINE: [&str; 7] = ["/bin", "/dev", "/lib", "/lib32", "/lib64", "/sbin", "/usr"];

/// Mounts of the machine, beside its root, that programs write to.
const WRITTEN: [&str; 3] = ["/run", "/tmp", "/var"];

/// Paths that a container sees read-only unless it is privileged (`defaultReadonlyPaths` in `pkg/securitycontext/util.go` of Kubernetes).
const SETTINGS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Mount point of the former root until it is unmounted.
const FORMER: &str = ".former";

/// Mount propagation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    None,
    /// From the node to the container.
    HostToContainer,
}

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Source.
    pub source: PathBuf,
    /// Target.
    pub at: PathBuf,
    /// Read-only.
    pub read_only: bool,
    /// Propagation.
    pub propagation: Propagation,
}

impl Mount {
    /// Mount of a file of an image: read-only.
    #[must_use]
    pub fn image(source: &Path, at: &str) -> Self {
        Self { source: source.to_owned(), at: at.into(), read_only: true, propagation: Propagation::None }
    }
}

/// Root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// An empty directory to build it on. What is mounted there is seen by nobody else, so any number of roots can share it.
    pub base: PathBuf,
    /// Mounts: the image's files, volumes.
    pub mounts: Vec<Mount>,
}

impl Root {
    /// Gives this thread, which is [`separate`], and what it starts, this root, whose `/proc` `mount_proc` mounts. It is gone with the
    /// last process that has it.
    pub(crate) fn enter(
        &self,
        resolv_conf: Option<&Path>,
        mount_proc: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let base = &self.base;
        plain(Some("container"), base, "tmpfs", MsFlags::MS_NODEV, Some("mode=0755"))?;
        for directory in ["dev", "etc", "host", "proc", "run", "sys", "tmp", "var"] {
            make_directory(&base.join(directory))?;
        }
        symlink("../run", base.join("var/run")).map_err(Error::file("link", base.join("var/run")))?;
        for device in DEVICES.map(Path::new) {
            bind(&Mount { read_only: false, ..Mount::image(device, "") }, &below(base, device))?;
        }
        mount_proc(&base.join("proc"))?;
        plain(Some("sysfs"), &base.join("sys"), "sysfs", HARMLESS | MsFlags::MS_RDONLY, None)?;
        if let Some(file) = resolv_conf {
            bind(&Mount::image(file, "/etc/resolv.conf"), &below(base, Path::new("/etc/resolv.conf")))?;
        }
        for mount in &self.mounts {
            // The lab's own shows the processes of all nodes.
            let of_node = Mount { source: base.join("proc"), ..mount.clone() };
            let mount = if mount.source == Path::new("/proc") { &of_node } else { mount };
            bind(mount, &below(base, &mount.at))?;
        }
        become_root(base)
    }
}

/// Root file system of a node: a directory of its own, with the machine's programs and devices mounted in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRoot(pub PathBuf);

impl NodeRoot {
    /// Lays it out in a mount namespace of this thread's own, whose root stays what it is.
    pub(crate) fn lay_out(&self) -> Result<(), Error> {
        separate()?;
        let base = &self.0;
        make_directory(base)?;
        // pivot_root(2): the new root must be a mount point. MS_REC: with the shared mount of /run/netns.
        attach(base, base, MsFlags::MS_REC)?;
        furnish(base)
    }

    /// Makes it the root of this thread, and of every process in its mount namespace that had the same one.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        become_root(&self.0)
    }
}

/// Gives a root the directories that every system has, and the machine's programs and devices.
pub(crate) fn furnish(base: &Path) -> Result<(), Error> {
    for directory in ["etc", "proc", "run", "sys", "tmp", "var"] {
        make_directory(&base.join(directory))?;
    }
    link(Path::new("../run"), &base.join("var/run"))?;
    plain(Some("sysfs"), &base.join("sys"), "sysfs", HARMLESS | MsFlags::MS_RDONLY, None)?;
    for directory in MACHINE.map(Path::new) {
        let Ok(kind) = fs::symlink_metadata(directory) else { continue };
        let at = below(base, directory);
        match fs::read_link(directory) {
            Ok(to) => link(&to, &at)?,
            Err(_) if kind.is_dir() => {
                make_directory(&at)?;
                attach(directory, &at, MsFlags::MS_REC)?;
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Makes a mount the root, and lets the former one go.
pub(crate) fn become_root(base: &Path) -> Result<(), Error> {
    make_directory(&base.join(FORMER))?;
    pivot_root(base, &base.join(FORMER))
        .map_err(|errno| Error::file("make a root of", base)(errno.into()))?;
    let let_go = || {
        chdir("/")?;
        let former = Path::new("/").join(FORMER);
        umount2(&former, MntFlags::MNT_DETACH)?;
        fs::remove_dir(former)
    };
    let_go().map_err(Error::system("let the former root go"))
}

/// A link that may be there, as after a reboot.
fn link(to: &Path, at: &Path) -> Result<(), Error> {
    match symlink(to, at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(Error::file("link", at)),
    }
}

/// No file can be written: not on the root, and on none of these mounts, or else on none of the machine's.
pub(crate) fn write_nothing(mounts: Option<&[PathBuf]>) -> Result<(), Error> {
    write_no_root()?;
    match mounts {
        Some(mounts) => mounts.iter().try_for_each(|at| keep_unwritten(at)),
        None => WRITTEN.map(Path::new).into_iter().try_for_each(keep_unwritten),
    }
}

/// As [`write_nothing`], but what is mounted below the root stays as it is: a container's volumes.
pub(crate) fn write_no_root() -> Result<(), Error> {
    keep_unwritten(Path::new("/"))
}

/// The kernel's settings below `/proc` cannot be written.
pub(crate) fn write_no_settings() -> Result<(), Error> {
    // runc's `readonlyPath`: not every kernel has all of them.
    for path in SETTINGS.map(Path::new).into_iter().filter(|path| path.exists()) {
        attach(path, path, MsFlags::MS_REC)?;
        keep_unwritten(path)?;
    }
    Ok(())
}

/// Deadline of a mount that is busy: whoever looks at it through `/proc` may be noting the time of access (`mnt_get_write_access` in
/// `fs/namespace.c`), which counts as a write. Where that one waits for a processor meanwhile, it takes as long as that.
const PATIENCE: Duration = Duration::from_secs(10);

fn keep_unwritten(at: &Path) -> Result<(), Error> {
    let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept(at);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match mount(None::<&str>, at, None::<&str>, read_only, None::<&str>) {
            Err(Errno::EBUSY) if Instant::now() < deadline => std::thread::yield_now(),
            // Not mounted: a part of what is.
            Ok(()) | Err(Errno::EINVAL) => return Ok(()),
            Err(errno) => return Err(Error::file("change the mount", at)(errno.into())),
        }
    }
}

/// A mount namespace of this thread's own. Mounts of the lab reach it, but none of its own reaches the lab. Each takes a copy of all mounts.
pub(crate) fn separate() -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|e| Error::system("make a mount namespace")(e.into()))?;
    change(Path::new("/"), MsFlags::MS_REC | MsFlags::MS_SLAVE)
}

/// A directory whose mounts reach those who ask for it, as long as this value lives.
#[derive(Debug)]
pub struct SharedDirectory(PathBuf);

impl SharedDirectory {
    /// Shares a directory.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn new(directory: &Path) -> Result<Self, Error> {
        mount(Some(directory), directory, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|errno| Error::file("mount", directory)(errno.into()))?;
        let own = Self(directory.to_owned());
        change(directory, MsFlags::MS_SHARED)?;
        Ok(own)
    }

    /// Shares it no more: the directory can be removed while this value lives on.
    pub fn let_go(&self) {
        // Nothing useful can be done about a failure: the mount namespace of the lab ends with the lab.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// An absolute path below `base`.
pub(crate) fn below(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

pub(crate) fn bind(wanted: &Mount, at: &Path) -> Result<(), Error> {
    let source = &wanted.source;
    let kind = fs::metadata(source).map_err(Error::file("find", source))?;
    if kind.is_dir() {
        make_directory(at)?;
    } else {
        at.parent().map_or(Ok(()), make_directory)?;
        match File::create_new(at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => drop(made.map_err(Error::file("make", at))?),
        }
    }
    attach(source, at, MsFlags::MS_REC)?;
    change(
        at,
        match wanted.propagation {
            Propagation::None => MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            Propagation::HostToContainer => MsFlags::MS_REC | MsFlags::MS_SLAVE,
        },
    )?;
    if wanted.read_only {
        change(at, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept(at))?;
    }
    Ok(())
}

/// A bind mount, of what is mounted below the source, too, with `MS_REC`.
fn attach(source: &Path, at: &Path, flags: MsFlags) -> Result<(), Error> {
    mount(Some(source), at, None::<&str>, MsFlags::MS_BIND | flags, None::<&str>)
        .map_err(|errno| Error::file("mount", at)(errno.into()))
}

/// Flags of a mount that a user namespace may not clear.
fn kept(at: &Path) -> MsFlags {
    let Ok(now) = statvfs(at) else { return MsFlags::empty() };
    let pairs = [
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
    ];
    pairs.iter().filter(|(has, _)| now.f_flag.contains(*has)).map(|(_, keep)| *keep).collect()
}

fn change(at: &Path, flags: MsFlags) -> Result<(), Error> {
    mount(None::<&str>, at, None::<&str>, flags, None::<&str>)
        .map_err(|errno| Error::file("change the mount", at)(errno.into()))
}

/// Flags of file systems of the kernel.
const HARMLESS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);

/// Mounts a `/proc` of the lab's own processes.
pub(crate) fn mount_proc(at: &Path) -> Result<(), Error> {
    plain(Some("proc"), at, "proc", HARMLESS, None)
}

pub(crate) fn plain(
    source: Option<&str>,
    at: &Path,
    kind: &str,
    flags: MsFlags,
    data: Option<&str>,
) -> Result<(), Error> {
    mount(source, at, Some(kind), flags, data).map_err(|errno| Error::file("mount", at)(errno.into()))
}

pub(crate) fn make_directory(at: &Path) -> Result<(), Error> {
    fs::create_dir_all(at).map_err(Error::file("make", at))
}
