// SPDX-License-Identifier: Apache-2.0
//! Everything outside of the process, as one value; tests fill it with maps and buffers.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::Path;

use netfilter::address::{AddressError, Rtnetlink};
use netfilter::ground::GroundError;
use netfilter::program::{self, Options, Removed, Request};
use netfilter::{Netns, NetnsError, ProgramError, Programmed};
use redirect::config::Config;

/// Dependencies on the outside of the process.
pub struct World<'w> {
    pub env: &'w dyn Fn(&str) -> Option<String>,
    pub file: &'w dyn Fn(&Path) -> io::Result<String>,
    pub stdin: &'w mut dyn Read,
    pub stdout: &'w mut dyn Write,
    pub stderr: &'w mut dyn Write,
    pub kernel: &'w dyn Kernel,
}

/// Network namespace.
pub trait Kernel {
    /// Enters another one for good.
    ///
    /// # Errors
    /// When it cannot be entered.
    fn enter(&self, path: &Path) -> Result<(), NetnsError>;

    /// Its addresses, in the kernel's order.
    ///
    /// # Errors
    /// When they cannot be read.
    fn addresses(&self) -> Result<Vec<IpAddr>, AddressError>;

    /// Makes it hold what is asked for.
    ///
    /// # Errors
    /// When it does not.
    fn program(&self, request: Request) -> Result<Programmed, ProgramError>;

    /// Removes redirection, whoever set it up.
    ///
    /// # Errors
    /// When something of it may be left.
    fn clean_up(&self, config: &Config, options: &Options) -> Result<Removed, ProgramError>;
}

/// The kernel that we run on.
#[derive(Debug, Clone, Copy)]
pub struct RealKernel;

impl Kernel for RealKernel {
    fn enter(&self, path: &Path) -> Result<(), NetnsError> {
        Netns::open(path)?.enter_for_good()
    }

    fn addresses(&self) -> Result<Vec<IpAddr>, AddressError> {
        Ok(netfilter::address::list()?.into_iter().map(|address| address.ip).collect())
    }

    fn program(&self, request: Request) -> Result<Programmed, ProgramError> {
        let mut rtnetlink = Rtnetlink::open().map_err(GroundError::from)?;
        let config = request.config.clone();
        let programmed = netfilter::program(&mut rtnetlink, request)?;
        // Containers that started before this one may have connections, also where nobody has used nf_tables.
        Ok(programmed.settled(&config, &rtnetlink.list().map_err(GroundError::from)?))
    }

    fn clean_up(&self, config: &Config, options: &Options) -> Result<Removed, ProgramError> {
        let mut rtnetlink = Rtnetlink::open().map_err(GroundError::from)?;
        program::remove(&mut rtnetlink, config, options)
    }
}
