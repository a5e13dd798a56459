// SPDX-License-Identifier: Apache-2.0
//! Ways to set up a pod that start no process of their own: they enter the pod's namespace, do their work and return, on the thread
//! that asks. The way back is not timed.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use netfilter::iptables::{self, Variant};
use netfilter::program::{Options, Request, program};
use netfilter::{Applied, Netns, Wish};
use nix::sched::CloneFlags;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, sockopt};
use redirect::config::Config;
use redirect::ruleset::Ruleset;

use crate::contender::SetUp;
use crate::pod::PodNamespace;

/// Default size of a socket's send buffer; more must be requested.
const USUAL_SEND_BUFFER: usize = 200 * 1024;

/// Set-up of a pod, given the path of its namespace. It may leave the thread in there.
type Work = Box<dyn Fn(&str) -> Result<()> + Sync + Send>;

/// A way to set up a pod in process.
pub struct InProcess {
    name: String,
    before: Option<Work>,
    work: Work,
}

impl InProcess {
    fn new(name: impl Into<String>, work: impl Fn(&str) -> Result<()> + Sync + Send + 'static) -> Self {
        Self { name: name.into(), before: None, work: Box::new(work) }
    }

    /// The same on a pod that something was done to before, which is not timed.
    #[must_use]
    pub fn behind(self, before: Self) -> Self {
        Self { before: Some(before.work), ..self }
    }
}

impl SetUp for InProcess {
    fn name(&self) -> &str {
        &self.name
    }

    fn set_up(&self, pod: &PodNamespace) -> Result<Duration> {
        let path = pod.path();
        if let Some(before) = &self.before {
            returning(|| before(&path))?.with_context(|| format!("prepare {}", self.name))?;
        }
        returning(|| {
            let start = Instant::now();
            (self.work)(&path).map(|()| start.elapsed())
        })?
        .with_context(|| self.name.clone())
    }
}

/// Runs `work` and returns to the namespace of before, wherever that led.
fn returning<T>(work: impl FnOnce() -> T) -> Result<T> {
    Ok(Netns::current()?.enter(work)?)
}

fn enter(path: &str) -> Result<()> {
    Ok(Netns::open(path)?.enter_for_good()?)
}

/// The floor: what the floor process does with the same constant bytes, without a process.
pub fn floor(name: impl Into<String>, ruleset: &Ruleset) -> Result<InProcess> {
    let batch = netfilter::encode::batch(ruleset, Some(1))?;
    Ok(InProcess::new(name, move |path| {
        nix::sched::setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
        let socket = nix::sys::socket::socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        if batch.len() > USUAL_SEND_BUFFER {
            nix::sys::socket::setsockopt(&socket, sockopt::SndBufForce, &batch.len())?;
        }
        let sent = nix::sys::socket::send(socket.as_raw_fd(), &batch, MsgFlags::empty())?;
        ensure!(sent == batch.len(), "{sent} of {} bytes were sent", batch.len());
        let mut reply = [0; 512];
        let length = nix::sys::socket::recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty())?;
        // An nlmsgerr: a header of 16 bytes, then the error number.
        let refused = reply[..length].get(16..20).is_none_or(|errno| errno != [0; 4]);
        ensure!(!refused, "the transaction was refused");
        Ok(())
    }))
}

/// Our transaction, from a ruleset.
pub fn netlink(name: impl Into<String>, ruleset: Ruleset, expected: Applied) -> InProcess {
    InProcess::new(name, move |path| {
        enter(path)?;
        as_expected(netfilter::apply(&ruleset)?, expected)
    })
}

/// Our use of the iptables tools, from a ruleset.
pub fn tools(variant: Variant, ruleset: Ruleset, expected: Applied, options: Options) -> InProcess {
    InProcess::new(format!("iptables-{variant}"), move |path| {
        enter(path)?;
        as_expected(iptables::apply(variant, &ruleset, &options)?.applied, expected)
    })
}

fn as_expected(applied: Applied, expected: Applied) -> Result<()> {
    ensure!(applied == expected, "it came to {applied:?}, not {expected:?}");
    Ok(())
}

/// All of what the plugin does to a pod: a look for legacy rules, the helper address, rules from a configuration.
pub fn whole(name: impl Into<String>, config: Config) -> InProcess {
    InProcess::new(name, move |path| {
        enter(path)?;
        let mut rtnetlink = netfilter::address::Rtnetlink::open()?;
        let options = Options::default();
        let request = Request { config: config.clone(), wish: Wish::Auto, recorded: None, options };
        as_expected(program(&mut rtnetlink, request)?.applied, Applied::Created)
    })
}

/// Must fail: our use of the legacy tools while another process holds the pod's lock. Timed until the error, which its caller can act on.
pub fn locked_out(ruleset: Ruleset, options: Options) -> InProcess {
    InProcess::new("iptables-legacy", move |path| {
        enter(path)?;
        let start = Instant::now();
        match iptables::apply(Variant::Legacy, &ruleset, &options) {
            Err(error @ iptables::IptablesError::Locked { .. }) if error.is_retriable() => {
                let took = start.elapsed();
                ensure!(took <= options.deadline, "it took {took:?}, longer than its deadline");
                Ok(())
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(anyhow!("it wrote rules although another process holds the lock")),
        }
    })
}
