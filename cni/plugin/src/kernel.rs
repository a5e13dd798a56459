// SPDX-License-Identifier: Apache-2.0
//! Network namespaces and what is in them, behind traits; the real ones hand through to `netfilter`.

use std::cell::{OnceCell, RefCell};
use std::net::IpAddr;
use std::path::Path;

use netfilter::address::{AddressError, Rtnetlink};
use netfilter::ground::GroundError;
use netfilter::guest::GuestError;
use netfilter::look::LookError;
use netfilter::program::{ProgramError, Programmed, Request, program};
use netfilter::route::PolicyRoutes;
use netfilter::{Netns, NetnsError, NodeRoot};
use redirect::found::FoundRules;
use redirect::sandbox::GuestLinks;

/// Opens network namespaces.
pub trait Kernel {
    /// Opens the namespace behind `path`.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    fn open(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError>;

    /// Opens the namespace behind a path of the node, also from within the node agent's container.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    fn open_of_node(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError>;
}

/// An open network namespace. Everything but [`Namespace::is_own`], [`Namespace::has_rules_of_ours`] and [`Namespace::enter`] acts on the
/// namespace that was entered.
pub trait Namespace {
    /// True if it is the namespace of this process.
    ///
    /// # Errors
    /// When the own one cannot be told.
    fn is_own(&self) -> Result<bool, NetnsError>;

    /// Enters it; there is no way back. Nothing may be asked of the node's network from then on.
    ///
    /// # Errors
    /// When it cannot be entered.
    fn enter(&self) -> Result<(), NetnsError>;

    /// Its addresses, in the kernel's order.
    ///
    /// # Errors
    /// When they cannot be read.
    fn addresses(&self) -> Result<Vec<IpAddr>, AddressError>;

    /// Makes it hold what `request` asks for, whatever of ours it held before.
    ///
    /// # Errors
    /// When it does not: it is as it was then, unless only rules of another back end are left beside the new ones.
    fn program(&self, request: Request) -> Result<Programmed, ProgramError>;

    /// Everything that it holds, in nf_tables and in legacy iptables.
    ///
    /// # Errors
    /// When it cannot be read.
    fn found(&self) -> Result<FoundRules, LookError>;

    /// True if TPROXY's policy routes exist.
    ///
    /// # Errors
    /// When they cannot be read.
    fn has_policy_routes(&self, wanted: PolicyRoutes) -> Result<bool, GroundError>;

    /// Its links that can lead to a guest.
    ///
    /// # Errors
    /// When they cannot be read.
    fn guest_links(&self) -> Result<GuestLinks, GuestError>;

    /// True if it holds rules of ours, of any version and any back end. Asked from outside: this thread stays where it is.
    ///
    /// # Errors
    /// When it cannot be entered for a moment, or they cannot be read.
    fn has_rules_of_ours(&self) -> Result<bool, CheckError>;
}

/// Failure of a look from outside.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Look(#[from] LookError),
}

/// Where the node agent's container has the node's processes; nowhere else is anything there.
const NODES_PROCESSES: &str = "/host/proc";

/// The kernel that we run on.
#[derive(Debug, Clone, Copy)]
pub struct RealKernel;

impl Kernel for RealKernel {
    fn open(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError> {
        Ok(Box::new(RealNamespace::from(Netns::open(path)?)))
    }

    fn open_of_node(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError> {
        let processes = Path::new(NODES_PROCESSES);
        let found = match path.strip_prefix("/proc") {
            Ok(process) => Netns::open(processes.join(process)).ok(),
            Err(_) => NodeRoot::open(processes).and_then(|root| root.netns(path)),
        };
        match found {
            Some(netns) => Ok(Box::new(RealNamespace::from(netns))),
            None => self.open(path),
        }
    }
}

impl From<Netns> for RealNamespace {
    fn from(netns: Netns) -> Self {
        Self { netns, rtnetlink: OnceCell::new() }
    }
}

/// A namespace of the kernel's.
struct RealNamespace {
    netns: Netns,
    /// Made inside, when first needed.
    rtnetlink: OnceCell<RefCell<Rtnetlink>>,
}

impl RealNamespace {
    fn rtnetlink(&self) -> Result<&RefCell<Rtnetlink>, AddressError> {
        match self.rtnetlink.get() {
            Some(open) => Ok(open),
            None => {
                let open = RefCell::new(Rtnetlink::open()?);
                Ok(self.rtnetlink.get_or_init(|| open))
            }
        }
    }
}

impl Namespace for RealNamespace {
    fn is_own(&self) -> Result<bool, NetnsError> {
        self.netns.is_current()
    }

    fn enter(&self) -> Result<(), NetnsError> {
        self.netns.enter_for_good()
    }

    fn addresses(&self) -> Result<Vec<IpAddr>, AddressError> {
        Ok(self.rtnetlink()?.borrow_mut().list()?.into_iter().map(|address| address.ip).collect())
    }

    fn program(&self, request: Request) -> Result<Programmed, ProgramError> {
        let rtnetlink = self.rtnetlink().map_err(GroundError::from)?;
        let (rtnetlink, config) = (&mut *rtnetlink.borrow_mut(), request.config.clone());
        let programmed = program(rtnetlink, request)?;
        // No process has run in a new sandbox, and nearly all are new.
        if programmed.is_fresh {
            return Ok(programmed);
        }
        Ok(programmed.settled(&config, &rtnetlink.list().map_err(GroundError::from)?))
    }

    fn found(&self) -> Result<FoundRules, LookError> {
        netfilter::look()
    }

    fn has_policy_routes(&self, wanted: PolicyRoutes) -> Result<bool, GroundError> {
        let rtnetlink = self.rtnetlink()?;
        Ok(rtnetlink.borrow_mut().has_policy_routes(wanted)?)
    }

    fn guest_links(&self) -> Result<GuestLinks, GuestError> {
        self.rtnetlink()?.borrow_mut().guest_links()
    }

    fn has_rules_of_ours(&self) -> Result<bool, CheckError> {
        Ok(self.netns.enter(netfilter::look::holds_rules_of_ours)??)
    }
}
