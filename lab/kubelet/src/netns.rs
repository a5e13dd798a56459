// SPDX-License-Identifier: Apache-2.0
//! The life of a network namespace: made on a thread of its own and kept by a bind mount, entered on a thread of its own,
//! gone when the mount is.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use netfilter::Netns;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rtnetlink::LinkUnspec;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::Error;

/// Range of the node's users that a pod with users of its own has, as a runtime maps it: the first, and how many there are.
pub const USER_RANGE: (u32, u32) = (100_000, 65_536);

/// Namespace of this process.
pub const OWN: &str = "/proc/self/ns/net";

/// Index of `lo` in every namespace.
const LOOPBACK: u32 = 1;

/// A network namespace that this process made and keeps.
#[derive(Debug)]
pub struct Namespace {
    path: PathBuf,
}

/// Purpose of a namespace: its sysctls follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceRole {
    /// A node: forwards between its pods.
    Node,
    /// A pod: any user may listen on any port, as container runtimes have it.
    Pod,
}

/// `rp_filter` as [`NamespaceRole::sysctls`] writes it.
const UNFILTERED: u8 = 0;

impl NamespaceRole {
    fn sysctls(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Node => &[
                ("ipv4/ip_forward", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                ("ipv4/conf/all/rp_filter", "0"),
                ("ipv4/conf/default/rp_filter", "0"),
            ],
            // No router is ever there to advertise: without this each pod asks for one.
            Self::Pod => &[
                ("ipv4/ip_unprivileged_port_start", "0"),
                ("ipv6/conf/default/accept_ra", "0"),
                ("ipv4/conf/all/rp_filter", "0"),
                ("ipv4/conf/default/rp_filter", "0"),
            ],
        }
    }
}

impl Namespace {
    /// Makes a namespace and keeps it at `path`, whose directory must exist.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn create(path: &Path, role: NamespaceRole) -> Result<Self, Error> {
        File::create_new(path).map_err(Error::file("make", path))?;
        let at = path.to_owned();
        let made = on_a_thread(move || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| Error::system("make a namespace")(e.into()))?;
            let own = Path::new("/proc/thread-self/ns/net");
            mount(Some(own), &at, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .map_err(|errno| Error::file("mount", at)(errno.into()))?;
            set_sysctls(role)
        });
        let namespace = Self { path: path.to_owned() };
        made.await??;
        Ok(namespace)
    }

    /// As [`Namespace::create`], but a user namespace of its own owns it, as with `hostUsers: false`. `workload` is in both until they are
    /// kept.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn create_with_users(path: &Path, role: NamespaceRole, workload: &Path) -> Result<Self, Error> {
        File::create_new(path).map_err(Error::file("make", path))?;
        let (at, workload) = (path.to_owned(), workload.to_owned());
        let made = on_a_thread(move || {
            let holder = Holder::start(&workload)?;
            let own = holder.file("ns/net");
            mount(Some(&own), &at, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .map_err(|errno| Error::file("mount", at)(errno.into()))
        });
        let namespace = Self { path: path.to_owned() };
        made.await??;
        inside(path, move || set_sysctls(role)).await??;
        Ok(namespace)
    }

    /// Its path: `CNI_NETNS`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps it no longer: it lives on until the last process and the last socket in it are gone. Once is enough.
    pub fn let_go(&self) {
        // Nothing useful can be done about a failure: the mount namespace of the lab ends with the lab.
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Sets `lo` of a namespace up.
///
/// # Errors
/// The kernel refuses it.
pub async fn set_loopback_up(path: &Path) -> Result<(), Error> {
    let opened = inside(path, rtnetlink::new_connection).await?;
    let (connection, handle, _) = opened.map_err(Error::system("open a netlink socket"))?;
    let connection = tokio::spawn(connection);
    let up = handle.link().change(LinkUnspec::new_with_index(LOOPBACK).up().build()).execute().await;
    connection.abort();
    Ok(up?)
}

/// Runs `work` on a thread that is inside the namespace at `path`, within the current runtime's context. A process that it
/// starts is inside as well, and its directory is `/`.
///
/// # Errors
/// The namespace cannot be entered.
pub async fn inside<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let path = path.to_owned();
    on_a_thread(move || {
        // `Command::current_dir` would go by fork, which copies the page tables of this whole process: a static program has no
        // `posix_spawn` that changes the directory.
        unshare(CloneFlags::CLONE_FS).map_err(|e| Error::system("have a directory of its own")(e.into()))?;
        env::set_current_dir("/").map_err(Error::system("change the directory"))?;
        Netns::open(&path)?.enter_for_good()?;
        Ok::<T, Error>(work())
    })
    .await?
}

/// Binds a TCP listener inside the namespace at `path`: a socket stays in the namespace that it was made in.
///
/// # Errors
/// The namespace cannot be entered, or the address is taken.
pub async fn listen(path: &Path, address: String) -> Result<TcpListener, Error> {
    let bind = move || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    inside(path, bind).await?.map_err(Error::system("listen for the API"))
}

/// `at` is `file`, for a thread with a mount namespace of its own, and what it starts.
pub(crate) fn hide_behind(file: &Path, at: &Path) -> Result<(), Error> {
    restore_end(at)?;
    mount(Some(file), at, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|errno| Error::file("mount", at)(errno.into()))
}

/// Makes the file that a link into `/run` leads to. The lab has an empty `/run` of its own, and some systems keep their
/// `resolv.conf` there.
fn restore_end(link: &Path) -> Result<(), Error> {
    let (Ok(to), Some(directory)) = (fs::read_link(link), link.parent()) else { return Ok(()) };
    let end = directory.join(&to);
    let in_run = to.starts_with("/run") || to.starts_with("../run");
    if let (true, false, Some(parent)) = (in_run, end.exists(), end.parent()) {
        fs::create_dir_all(parent).and_then(|()| File::create(&end)).map_err(Error::file("make", end))?;
    }
    Ok(())
}

/// A process in a user namespace of its own, and in a network namespace that this one owns. It ends with this value.
struct Holder(Child);

impl Holder {
    fn start(workload: &Path) -> Result<Self, Error> {
        let failed = Error::system("make a user namespace");
        let mut command = Command::new(workload);
        command.arg("pause").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        in_new_namespaces(&mut command);
        let holder = Self(command.spawn().map_err(failed)?);
        let (first, count) = USER_RANGE;
        let map = format!("0 {first} {count}");
        for (name, text) in [("setgroups", "deny"), ("uid_map", &map), ("gid_map", &map)] {
            let path = holder.file(name);
            fs::write(&path, text).map_err(Error::file("write", path))?;
        }
        Ok(holder)
    }

    /// A file of the process in `/proc`.
    fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.0.id().to_string()).join(name)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both do nothing to one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(unsafe_code, reason = "only a process with one thread can enter a user namespace")]
fn in_new_namespaces(command: &mut Command) {
    // SAFETY: the closure makes one system call and touches nothing that another thread could hold.
    unsafe {
        command
            .pre_exec(|| unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(Into::into));
    }
}

/// Gives the node at `path` the addresses at which pods and the node itself reach services. They are its own, so no packet has to
/// be translated.
///
/// # Errors
/// The kernel refuses it.
pub async fn add_addresses(path: &Path, addresses: &[IpAddr]) -> Result<(), Error> {
    let open = || rtnetlink::new_connection().map_err(Error::system("open a netlink socket"));
    let (connection, handle, _) = inside(path, open).await??;
    let connection = tokio::spawn(connection);
    let mut added = Ok(());
    for address in addresses {
        let length = if address.is_ipv4() { 32 } else { 128 };
        let mut request = handle.address().add(LOOPBACK, *address, length);
        if address.is_ipv6() {
            // It is asked whether somebody else has it, even here, and cannot be listened on meanwhile.
            request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
            request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        added = added.and(request.execute().await);
    }
    connection.abort();
    Ok(added?)
}

/// Sets `rp_filter` in the new namespace at `path`, for the interfaces that are there and those to come.
///
/// # Errors
/// The namespace cannot be entered, or the kernel refuses it.
pub async fn filter_reverse_paths(path: &Path, value: u8) -> Result<(), Error> {
    if value == UNFILTERED {
        return Ok(());
    }
    let write = move || {
        ["all", "default"].iter().try_for_each(|of| {
            let path = Path::new("/proc/sys/net/ipv4/conf").join(of).join("rp_filter");
            fs::write(&path, value.to_string()).map_err(Error::file("write", path))
        })
    };
    inside(path, write).await?
}

async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let (send, receive) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new()
        .name("netns".to_owned())
        .spawn(move || {
            let _context = runtime.enter();
            let _nobody_waits = send.send(work());
        })
        .map_err(Error::system("start a thread"))?;
    receive.await.map_err(|_| Error::system("finish on a thread")(io::ErrorKind::BrokenPipe.into()))
}

fn set_sysctls(role: NamespaceRole) -> Result<(), Error> {
    for (name, value) in role.sysctls() {
        // `/proc/sys/net` shows the namespace of the thread that looks.
        let path = Path::new("/proc/sys/net").join(name);
        match fs::write(&path, value) {
            // A kernel without IPv6, or one that ties a setting to the first namespace.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => written.map_err(Error::file("write", path))?,
        }
    }
    Ok(())
}
