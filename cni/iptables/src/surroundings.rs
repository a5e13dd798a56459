// SPDX-License-Identifier: Apache-2.0
//! Inputs from the namespace, the environment and files; validation of the whole.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use redirect::accounts::{self, GROUPS, USERS, UnknownAccount};
use redirect::command_line::{SettingError, check_groups, read_loopback};
use redirect::config::{Config, Dns, PROXY_ID};
use redirect::dns;
use redirect::host::{AddressFamilies, Environment, EnvironmentError, NoLocalAddress, decide_addresses};
use redirect::ruleset::{Dialect, Id};

use crate::settings::{DnsWish, Settings};

/// Variable with the proxy's user name.
pub const ENVOY_USER: &str = "ENVOY_USER";
/// Default of the proxy's user name.
const DEFAULT_USER: &str = "istio-proxy";

/// Environment of the process.
pub struct ProcessEnvironment<'w> {
    pub env: &'w dyn Fn(&str) -> Option<String>,
    pub file: &'w dyn Fn(&Path) -> io::Result<String>,
}

/// Settings combined with the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Input of the rules' generator, with users and groups as they were given.
    pub given: Config,
    /// The same, with numbers in the place of names that are known here.
    pub config: Config,
    /// The first name that is not.
    pub names: Result<(), UnknownAccount>,
    /// Families of the addresses.
    pub addresses: AddressFamilies,
    /// A setting that has no effect here.
    pub warning: Option<&'static str>,
}

/// Settings that contradict the environment.
#[derive(Debug, thiserror::Error)]
pub enum SurroundingsError {
    /// Malformed variable.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error("decide the address family: {0}")]
    NoAddress(#[from] NoLocalAddress),
    #[error("load /etc/resolv.conf")]
    Resolvers(#[source] io::Error),
    /// Flags that contradict the configuration.
    #[error("accept the settings: {0}")]
    Setting(#[from] SettingError),
}

impl ProcessEnvironment<'_> {
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
        if let Some(loopback) = (self.env)(Environment::LOOPBACK) {
            read_loopback(&loopback)?;
        }
        let environment = Environment::read(self.env)?;
        check_groups(&environment.groups_include)?;
        let uids = settings.uids.clone().unwrap_or_else(|| vec![Id::Number(self.proxy_uid())]);
        let addresses = decide_addresses(addresses, settings.stack)?;
        let dns = self.dns(settings.dns)?;
        let unresolved = settings.dns == DnsWish::Servers && !dns.is_on();
        let given = Config {
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
        let mut config = given.clone();
        let names = self.resolve(&mut config);
        let warning = unresolved.then_some(
            "DNS is not captured: /etc/resolv.conf names no resolver, and not all DNS is to be captured",
        );
        Ok(Whole { given, config, names, addresses, warning })
    }

    /// UID of the proxy's user, if the image has that user.
    fn proxy_uid(&self) -> u32 {
        let user = (self.env)(ENVOY_USER).unwrap_or_else(|| DEFAULT_USER.to_owned());
        let passwd = (self.file)(Path::new(USERS)).unwrap_or_default();
        accounts::number(&passwd, &user).unwrap_or(PROXY_ID)
    }

    /// Puts numbers in the place of the names of users and groups.
    ///
    /// # Errors
    /// A name that is unknown here. The others are numbers all the same.
    pub fn resolve(&self, config: &mut Config) -> Result<(), UnknownAccount> {
        let read = |path: &str| (self.file)(Path::new(path)).ok();
        let outcomes = [
            accounts::resolve("--proxy-uid", USERS, &mut config.proxy_uids, read),
            accounts::resolve("--proxy-gid", GROUPS, &mut config.proxy_gids, read),
            accounts::resolve_groups(
                &mut config.owner_groups_include,
                &mut config.owner_groups_exclude,
                read,
            ),
        ];
        outcomes.into_iter().collect()
    }

    fn dns(&self, wish: DnsWish) -> Result<Dns, SurroundingsError> {
        Ok(match wish {
            DnsWish::Off => Dns::Off,
            DnsWish::All => Dns::All,
            DnsWish::Servers => {
                let text =
                    (self.file)(Path::new("/etc/resolv.conf")).map_err(SurroundingsError::Resolvers)?;
                dns::servers(&text)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use redirect::list::{groups, ids};

    use super::*;

    #[test]
    fn names_are_those_of_the_files_and_an_unknown_one_is_told_by_its_setting() {
        let file = |path: &Path| match path.to_str() {
            Some(USERS) => Ok("java:x:1:9::/:\n".to_owned()),
            Some(GROUPS) => Ok("java:x:2:\nwww-data:x:33:\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let surroundings = ProcessEnvironment { env: &|_| None, file: &file };
        let mut config = Config {
            proxy_uids: ids("java"),
            proxy_gids: ids("java"),
            owner_groups_exclude: ids("www-data"),
            ..Config::default()
        };
        assert_eq!(surroundings.resolve(&mut config), Ok(()));
        assert_eq!((config.proxy_uids, config.proxy_gids), (ids("1"), ids("2")));
        assert_eq!(config.owner_groups_exclude, ids("33"));
        let mut config = Config {
            proxy_uids: ids("nobody-here"),
            owner_groups_include: groups("www-data"),
            ..Config::default()
        };
        let unknown = surroundings.resolve(&mut config).map_err(|error| error.setting);
        assert_eq!((unknown, config.owner_groups_include), (Err("--proxy-uid"), groups("33")));
    }
}
