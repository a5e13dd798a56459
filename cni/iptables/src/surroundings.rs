// SPDX-License-Identifier: Apache-2.0
//! What the namespace, the environment and a few files add to the flags, and whether the whole makes sense.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use redirect::config::{Config, Dns, PROXY_ID};
use redirect::host::{AddressFamilies, Environment, EnvironmentError, NoLocalAddress, decide_addresses};
use redirect::ruleset::{Cidr, Dialect, Id};

use crate::passwd;
use crate::resolv::nameservers;
use crate::settings::{DnsWish, Settings};

/// The variable that names the proxy's user.
pub const ENVOY_USER: &str = "ENVOY_USER";
/// The proxy's user where that is not set.
const DEFAULT_USER: &str = "istio-proxy";
/// More groups than this do not fit into one rule.
const MOST_GROUPS: usize = 64;

/// Where a process runs.
pub struct Surroundings<'w> {
    /// Looks a variable up.
    pub env: &'w dyn Fn(&str) -> Option<String>,
    /// Reads a file.
    pub file: &'w dyn Fn(&Path) -> io::Result<String>,
}

/// Settings and surroundings together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// What rules are made of.
    pub config: Config,
    /// What the addresses say.
    pub addresses: AddressFamilies,
    /// What somebody should know.
    pub warnings: Vec<Warning>,
}

/// What works, but perhaps not as meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// DNS is to be captured, and nobody says whose.
    #[error("DNS is not captured: /etc/resolv.conf names no resolver, and not all DNS is to be captured")]
    NoResolver,
}

/// Settings and surroundings that do not go together.
#[derive(Debug, thiserror::Error)]
pub enum SurroundingsError {
    /// The environment says something that means nothing.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The namespace has no address.
    #[error("decide the address family: {0}")]
    NoAddress(#[from] NoLocalAddress),
    /// No resolvers.
    #[error("load /etc/resolv.conf")]
    Resolvers(#[source] io::Error),
    /// Too many groups.
    #[error("read {}: {count} groups are more than {MOST_GROUPS}", Environment::GROUPS)]
    Groups {
        /// How many.
        count: usize,
    },
    /// A loopback prefix that is none.
    #[error("read {}: {prefix} is not an IPv4 loopback prefix of 8 to 32 bits", Environment::LOOPBACK)]
    Loopback {
        /// It.
        prefix: Cidr,
    },
}

impl Surroundings<'_> {
    /// Adds to `settings` what is found here; `addresses` are those of the namespace, in the kernel's order.
    ///
    /// # Errors
    /// See [`SurroundingsError`].
    pub fn complete(
        &self,
        settings: &Settings,
        dialect: Dialect,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Whole, SurroundingsError> {
        let environment = Environment::read(self.env)?;
        let uids = settings.uids.clone().unwrap_or_else(|| vec![Id::Number(self.proxy_uid())]);
        let addresses = decide_addresses(addresses, settings.stack)?;
        let dns = self.dns(settings.dns)?;
        let unresolved = settings.dns == DnsWish::Servers && !dns.is_on();
        check(&environment)?;
        let config = Config {
            dialect,
            ipv6: addresses.ipv6,
            proxy_gids: settings.gids.clone().unwrap_or_else(|| uids.clone()),
            proxy_uids: uids,
            owner_groups_include: environment.groups_include,
            owner_groups_exclude: environment.groups_exclude,
            loopback: environment.loopback,
            dns,
            ..settings.template.clone()
        };
        let warnings = if unresolved { vec![Warning::NoResolver] } else { vec![] };
        Ok(Whole { config, addresses, warnings })
    }

    /// The uid of the proxy's user, if the image knows that user.
    fn proxy_uid(&self) -> u32 {
        let user = (self.env)(ENVOY_USER).unwrap_or_else(|| DEFAULT_USER.to_owned());
        let passwd = (self.file)(Path::new("/etc/passwd")).unwrap_or_default();
        passwd::uid(&passwd, &user).unwrap_or(PROXY_ID)
    }

    fn dns(&self, wish: DnsWish) -> Result<Dns, SurroundingsError> {
        Ok(match wish {
            DnsWish::Off => Dns::Off,
            DnsWish::All => Dns::All,
            DnsWish::Servers => {
                let text =
                    (self.file)(Path::new("/etc/resolv.conf")).map_err(SurroundingsError::Resolvers)?;
                let (v4, v6) = nameservers(&text);
                Dns::Servers { v4, v6 }
            }
        })
    }
}

fn check(environment: &Environment) -> Result<(), SurroundingsError> {
    let count = environment.groups_include.listed().len();
    if count > MOST_GROUPS {
        return Err(SurroundingsError::Groups { count });
    }
    let prefix = environment.loopback;
    let fits = prefix.address.is_ipv4() && prefix.address.is_loopback() && (8..=32).contains(&prefix.length);
    if fits { Ok(()) } else { Err(SurroundingsError::Loopback { prefix }) }
}
