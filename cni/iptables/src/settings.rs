// SPDX-License-Identifier: Apache-2.0
//! Settings from flags; [`crate::surroundings`] adds the environment.

use std::path::PathBuf;
use std::time::Duration;

use netfilter::backend::{self, ForcedBinary, UnknownBackend, UnknownBinary, Wish};
use netfilter::program::{Options, Surroundings};
use redirect::config::{Config, Mode};
use redirect::go::{PrefixError, UintError, parse_port};
use redirect::host::Stack;
use redirect::list::{self, Selection};
use redirect::ruleset::Id;

use crate::flag::{self, Flag};
use crate::given::FlagValues;
use crate::go::{GoError, parse_duration, parse_number};

/// DNS traffic to redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsWish {
    Off,
    /// To the resolvers in `/etc/resolv.conf`.
    Servers,
    /// All of port 53.
    All,
}

/// Operation on rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programming {
    /// Write them.
    Apply,
    /// Print them.
    DryRun,
    /// Print what removes them.
    DryCleanUp,
    /// Remove them.
    CleanUp,
    Skip,
}

/// Validation of paths that upstream's probe cannot see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    Off,
    /// Reports findings.
    Report,
    /// Fails on a broken path.
    Enforce,
}

/// Options of validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validation {
    /// Destination port of the probe.
    pub probe_port: u16,
    pub timeout: Duration,
    pub paths: Paths,
}

/// Parsed flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The rules; users, groups, IPv6, DNS and what the environment says are not filled in.
    pub template: Config,
    /// UIDs of the proxy, if given.
    pub uids: Option<Vec<Id>>,
    /// GIDs of the proxy, if given.
    pub gids: Option<Vec<Id>>,
    pub dns: DnsWish,
    /// Address families.
    pub stack: Stack,
    pub backend: Wish,
    /// Path of the netns; the own one without.
    pub netns: Option<PathBuf>,
    /// Operation on rules.
    pub programming: Programming,
    /// Options of the iptables tools.
    pub options: Options,
    /// Validation, if requested.
    pub validation: Option<Validation>,
}

/// Malformed flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read --{flag}: {reason}")]
pub struct SettingError {
    pub flag: &'static str,
    /// Reason.
    pub reason: SettingReason,
}

/// Reason of a malformed value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingReason {
    #[error(transparent)]
    Port(#[from] UintError),
    /// Neither a port nor a range.
    #[error("{0:?} is neither a port nor a range LOW:HIGH")]
    PortToken(String),
    /// Not a 32-bit number.
    #[error("{0:?} is not a number from 0 to 4294967295")]
    Number(String),
    /// Not a list of CIDRs.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// `*` in an exclusion list.
    #[error("invalid value for OUTBOUND_IP_RANGES_EXCLUDE: all ranges cannot be excluded")]
    ExcludesAll,
    /// Not a number or duration.
    #[error(transparent)]
    Go(#[from] GoError),
    /// Unknown back end.
    #[error(transparent)]
    Backend(#[from] UnknownBackend),
    /// Neither `legacy` nor `nft`.
    #[error(transparent)]
    Binary(#[from] UnknownBinary),
    /// Unknown mode.
    #[error("{0:?} is none of off, report and enforce")]
    Paths(String),
}

impl Settings {
    /// Reads the flags.
    ///
    /// # Errors
    /// The first flag whose value means nothing.
    pub fn read(given: &FlagValues) -> Result<Self, SettingError> {
        let ids = |flag| Some(given.text(flag)).filter(|text| !text.is_empty()).map(list::ids);
        let validation = given.is_on(&flag::RUN_VALIDATION).then(|| validation(given)).transpose()?;
        Ok(Self {
            template: template(given)?,
            uids: ids(&flag::PROXY_UID),
            gids: ids(&flag::PROXY_GID),
            dns: match (given.is_on(&flag::REDIRECT_DNS), given.is_on(&flag::CAPTURE_ALL_DNS)) {
                (false, _) => DnsWish::Off,
                (true, false) => DnsWish::Servers,
                (true, true) => DnsWish::All,
            },
            stack: if given.is_on(&flag::DUAL_STACK) { Stack::Dual } else { Stack::FirstAddress },
            backend: backend(given)?,
            netns: Some(given.text(&flag::NETWORK_NAMESPACE))
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            programming: programming(given),
            options: Options {
                surroundings: if given.is_on(&flag::CNI_MODE) {
                    Surroundings::Node
                } else {
                    Surroundings::Container
                },
                reconcile: given.is_on(&flag::RECONCILE),
                force: given.is_on(&flag::FORCE_APPLY),
                ..Options::default()
            },
            validation,
        })
    }

    /// Checks that rules which are to be applied can hold each port of the lists that count.
    ///
    /// # Errors
    /// The first flag with a port that they cannot.
    pub fn check_ports(&self) -> Result<(), SettingError> {
        if self.programming != Programming::Apply || self.backend.knows_names() {
            return Ok(());
        }
        let rules = &self.template;
        let (include, exclude) = match &rules.inbound_ports_include {
            Some(Selection::List(list)) => (list.as_slice(), [].as_slice()),
            Some(Selection::All) => ([].as_slice(), rules.inbound_ports_exclude.as_slice()),
            None => ([].as_slice(), [].as_slice()),
        };
        let lists = [
            (&flag::INBOUND_PORTS, include),
            (&flag::LOCAL_EXCLUDE_PORTS, exclude),
            (&flag::OUTBOUND_PORTS, &rules.outbound_ports_include),
            (&flag::OUTBOUND_PORTS_EXCLUDE, &rules.outbound_ports_exclude),
        ];
        for (flag, ports) in lists {
            if let Some(port) = ports.iter().find(|port| port.bounds().is_none()) {
                return Err(SettingError {
                    flag: flag.name,
                    reason: SettingReason::PortToken(port.to_string()),
                });
            }
        }
        Ok(())
    }
}

/// A dry run programs nothing, whatever else is requested.
fn programming(given: &FlagValues) -> Programming {
    if given.is_on(&flag::SKIP_RULE_APPLY) {
        Programming::Skip
    } else {
        match (given.is_on(&flag::DRY_RUN), given.is_on(&flag::CLEANUP_ONLY)) {
            (true, true) => Programming::DryCleanUp,
            (true, false) => Programming::DryRun,
            (false, true) => Programming::CleanUp,
            (false, false) => Programming::Apply,
        }
    }
}

fn read<T, E: Into<SettingReason>>(
    given: &FlagValues,
    flag: &'static Flag,
    reader: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, SettingError> {
    reader(given.text(flag)).map_err(|reason| SettingError { flag: flag.name, reason: reason.into() })
}

fn template(given: &FlagValues) -> Result<Config, SettingError> {
    let port = |flag| read(given, flag, parse_port);
    let number =
        |flag| read(given, flag, |text| text.parse().map_err(|_| SettingReason::Number(text.to_owned())));
    let excluded = |text: &str| match text {
        "*" => Err(SettingReason::ExcludesAll),
        text => Ok(list::cidrs(text)?),
    };
    Ok(Config {
        mode: if given.text(&flag::MODE) == "TPROXY" { Mode::Tproxy } else { Mode::Redirect },
        proxy_port: port(&flag::ENVOY_PORT)?,
        inbound_capture_port: port(&flag::INBOUND_CAPTURE_PORT)?,
        inbound_tunnel_port: port(&flag::INBOUND_TUNNEL_PORT)?,
        inbound_ports_include: list::inbound_ports(given.text(&flag::INBOUND_PORTS)),
        inbound_ports_exclude: list::ports(given.text(&flag::LOCAL_EXCLUDE_PORTS)),
        exclude_interfaces: list::interfaces(given.text(&flag::EXCLUDE_INTERFACES)),
        virtual_interfaces: list::interfaces(given.text(&flag::KUBE_VIRT_INTERFACES)),
        outbound_ranges_include: read(given, &flag::SERVICE_CIDR, list::ranges)?,
        outbound_ranges_exclude: read(given, &flag::SERVICE_EXCLUDE_CIDR, excluded)?,
        outbound_ports_include: list::ports(given.text(&flag::OUTBOUND_PORTS)),
        outbound_ports_exclude: list::ports(given.text(&flag::OUTBOUND_PORTS_EXCLUDE)),
        drop_invalid: given.is_on(&flag::DROP_INVALID),
        tproxy_mark: number(&flag::TPROXY_MARK)?,
        tproxy_route_table: number(&flag::TPROXY_ROUTE_TABLE)?,
        ..Config::default()
    })
}

fn validation(given: &FlagValues) -> Result<Validation, SettingError> {
    let paths = |text: &str| match text {
        "off" => Ok(Paths::Off),
        "" | "report" => Ok(Paths::Report),
        "enforce" => Ok(Paths::Enforce),
        other => Err(SettingReason::Paths(other.to_owned())),
    };
    Ok(Validation {
        probe_port: read(given, &flag::PROBE_PORT, parse_number)?,
        timeout: read(given, &flag::PROBE_TIMEOUT, parse_duration)?,
        paths: read(given, &flag::VALIDATE_PATHS, paths)?,
    })
}

fn backend(given: &FlagValues) -> Result<Wish, SettingError> {
    let forced = |text: &str| match text {
        "" => Ok(None),
        text => text.parse::<ForcedBinary>().map(Some),
    };
    let named = |text: &str| if text.is_empty() { Ok(Wish::Auto) } else { text.parse() };
    let chosen = backend::Settings {
        backend: read(given, &flag::BACKEND, named)?,
        native_nftables: given.is_on(&flag::NATIVE_NFTABLES),
        forced_binary: read(given, &flag::FORCE_IPTABLES_BINARY, forced)?,
    };
    Ok(chosen.wish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::with_flags;

    fn read(arguments: &[&str]) -> Result<Settings, String> {
        let command = with_flags(clap::Command::new("istio-iptables"));
        let (given, _) = FlagValues::read(command, arguments.iter().map(Into::into), &|_| None).unwrap();
        Settings::read(&given).map_err(|error| error.to_string())
    }

    #[test]
    fn a_dry_run_of_a_clean_up_is_neither() {
        let programming = |arguments: &[&str]| read(arguments).unwrap().programming;
        assert_eq!(programming(&["--cleanup-only", "--dry-run"]), Programming::DryCleanUp);
        assert_eq!(programming(&["--dry-run"]), Programming::DryRun);
        assert_eq!(programming(&["--cleanup-only"]), Programming::CleanUp);
        assert_eq!(programming(&[]), Programming::Apply);
        assert_eq!(programming(&["--cleanup-only", "--dry-run", "--skip-rule-apply"]), Programming::Skip);
    }

    #[test]
    fn a_port_that_is_none_is_refused_by_flag_where_rules_are_applied() {
        let checked = |arguments: &[&str]| read(arguments)?.check_ports().map_err(|error| error.to_string());
        for (arguments, flag, token) in [
            (&["-b", "80-90"][..], "istio-inbound-ports", "80-90"),
            (&["-b", "*", "-d", "15020,x"], "istio-local-exclude-ports", "x"),
            (&["-q", "90:80"], "istio-outbound-ports", "90:80"),
            (&["-o", "*"], "istio-local-outbound-ports-exclude", "*"),
        ] {
            let want = format!("read --{flag}: {token:?} is neither a port nor a range LOW:HIGH");
            assert_eq!(checked(arguments), Err(want));
            for harmless in ["--dry-run", "--skip-rule-apply", "--cleanup-only", "--backend=iptables-nft"] {
                assert_eq!(checked(&[arguments, &[harmless]].concat()), Ok(()), "{arguments:?} {harmless}");
            }
        }
        for arguments in [&["-b", "30000:,:1023"][..], &["-b", "80", "-d", "x"], &["-d", "x"]] {
            assert_eq!(checked(arguments), Ok(()), "{arguments:?}: what does not count is not read");
        }
    }
}
