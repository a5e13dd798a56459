// SPDX-License-Identifier: Apache-2.0
//! Network namespaces and what is in them, behind traits; the real ones hand through to `netfilter`.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use netfilter::address::{AddressError, Rtnetlink};
use netfilter::{Applied, ApplyError, Netns, NetnsError, ReadError, legacy};
use redirect::ruleset::{Family, Ruleset};

/// Opens network namespaces.
pub trait Kernel {
    /// Opens the namespace behind `path`.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    fn open(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError>;
}

/// An open network namespace. Everything but [`Namespace::is_own`] and [`Namespace::enter`] acts on the namespace that was
/// entered.
pub trait Namespace {
    /// Whether it is the one that this process runs in.
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

    /// Whether somebody used the legacy back end here, whose rules nf_tables does not show.
    ///
    /// # Errors
    /// When it cannot be told.
    fn has_legacy_tables(&self) -> io::Result<bool>;

    /// Adds the address that inbound IPv6 connections of the proxy come from.
    ///
    /// # Errors
    /// When it cannot be added.
    fn add_inbound_address(&self) -> Result<(), AddressError>;

    /// Makes it hold `ruleset`, whatever of ours it held before.
    ///
    /// # Errors
    /// When it does not; it is as it was then.
    fn apply(&self, ruleset: &Ruleset) -> Result<Applied, ApplyError>;

    /// Whether it holds rules of ours, of any version.
    ///
    /// # Errors
    /// When they cannot be read.
    fn has_rules_of_ours(&self) -> Result<bool, ReadError>;
}

/// The kernel that we run on.
#[derive(Debug, Clone, Copy)]
pub struct RealKernel;

impl Kernel for RealKernel {
    fn open(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError> {
        Ok(Box::new(RealNamespace { netns: Netns::open(path)?, rtnetlink: RefCell::default() }))
    }
}

/// A namespace of the kernel's.
struct RealNamespace {
    netns: Netns,
    /// Made inside, when first needed.
    rtnetlink: RefCell<Option<Rtnetlink>>,
}

impl RealNamespace {
    fn ask<T>(
        &self,
        question: impl FnOnce(&mut Rtnetlink) -> Result<T, AddressError>,
    ) -> Result<T, AddressError> {
        let mut kept = self.rtnetlink.borrow_mut();
        let rtnetlink = match kept.take() {
            Some(open) => open,
            None => Rtnetlink::open()?,
        };
        question(kept.insert(rtnetlink))
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
        Ok(self.ask(Rtnetlink::list)?.into_iter().map(|address| address.ip).collect())
    }

    fn has_legacy_tables(&self) -> io::Result<bool> {
        Ok(!legacy::tables(Family::V4)?.is_empty() || !legacy::tables(Family::V6)?.is_empty())
    }

    fn add_inbound_address(&self) -> Result<(), AddressError> {
        self.ask(Rtnetlink::add_loopback_helper).map(drop)
    }

    fn apply(&self, ruleset: &Ruleset) -> Result<Applied, ApplyError> {
        netfilter::apply(ruleset)
    }

    fn has_rules_of_ours(&self) -> Result<bool, ReadError> {
        Ok(netfilter::has_rules_of_ours(&netfilter::read()?))
    }
}
