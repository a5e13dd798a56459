// SPDX-License-Identifier: Apache-2.0
//! Settings with where they come from, and which rules exist for them.

use std::fmt::{self, Display};

use redirect::annotations::Annotation;
use redirect::config::Mode;
use redirect::host::{Environment, Stack};
use redirect::list::Selection;
use redirect::parameters::{ProxyEnv, Source as PodSource, Sourced};
use redirect::ruleset::Origin;
use redirect::{Config, Redirect};

use crate::flag::{self, Flag};
use crate::given::{self, Given};

/// Source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Not set.
    Default,
    /// Annotation of the pod.
    Annotation(&'static str),
    /// Variable: of the proxy's container, or of the process.
    Env(String),
    Flag,
    SecurityContext,
}

impl Source {
    /// Name in the output.
    #[must_use]
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Annotation(_) => "annotation",
            Self::Env(_) => "env",
            Self::Flag => "flag",
            Self::SecurityContext => "securityContext",
        }
    }

    /// Key of the annotation or name of the variable.
    #[must_use]
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Annotation(key) => Some(key),
            Self::Env(variable) => Some(variable),
            Self::Default | Self::Flag | Self::SecurityContext => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// Name, as its users know it.
    pub(super) name: String,
    /// Effective value.
    pub(super) value: String,
    pub(super) source: Source,
    /// Origin of the rules that exist for it.
    pub(super) origin: Option<Origin>,
}

impl Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} = \"{}\" ({})", self.name, self.value, self.source.kind())
    }
}

/// Setting of rules of `origin`.
#[must_use]
pub(super) fn find(settings: &[Setting], origin: Origin) -> Option<&Setting> {
    settings.iter().find(|setting| setting.origin == Some(origin))
}

fn list<T: Display>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn selection<T: Display>(selection: &Selection<T>) -> String {
    match selection {
        Selection::All => "*".to_owned(),
        Selection::List(listed) => list(listed),
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Redirect => "REDIRECT",
        Mode::Tproxy => "TPROXY",
    }
}

/// Settings of a pod, as the CNI plugin reads it.
#[must_use]
pub(super) fn of_pod(
    redirect: &Redirect,
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
) -> Vec<Setting> {
    let mut settings = Vec::with_capacity(17);
    let mut add = |name: &str, value: String, source: PodSource, origin| {
        let source = match source {
            PodSource::Default => Source::Default,
            PodSource::Annotation(annotation) => Source::Annotation(annotation.key()),
            PodSource::Env(variable) => Source::Env(variable.name().to_owned()),
            PodSource::SecurityContext => Source::SecurityContext,
        };
        settings.push(Setting { name: name.to_owned(), value, source, origin });
    };
    add("interceptionMode", mode(redirect.mode.value).to_owned(), redirect.mode.source, Some(Origin::Tproxy));
    for (name, id, origin) in
        [("runAsUser", &redirect.uid, Origin::ProxyUid), ("runAsGroup", &redirect.gid, Origin::ProxyGid)]
    {
        add(name, id.value.to_string(), id.source, Some(origin));
    }
    let ranges = &redirect.include_outbound_ranges;
    add(
        "includeOutboundIPRanges",
        selection(&ranges.value),
        ranges.source,
        Some(Origin::IncludeOutboundRanges),
    );
    let ranges = &redirect.exclude_outbound_ranges;
    add("excludeOutboundIPRanges", list(&ranges.value), ranges.source, Some(Origin::ExcludeOutboundRanges));
    let inbound = &redirect.include_inbound_ports;
    let included = inbound.value.as_ref().map(selection).unwrap_or_default();
    add("includeInboundPorts", included, inbound.source, Some(Origin::IncludeInboundPorts));
    for (name, ports, origin) in [
        ("excludeInboundPorts", &redirect.exclude_inbound_ports, Origin::ExcludeInboundPorts),
        ("includeOutboundPorts", &redirect.include_outbound_ports, Origin::IncludeOutboundPorts),
        ("excludeOutboundPorts", &redirect.exclude_outbound_ports, Origin::ExcludeOutboundPorts),
    ] {
        add(name, list(&ports.value), ports.source, Some(origin));
    }
    let excluded = &redirect.exclude_interfaces;
    add("excludeInterfaces", list(&excluded.value), excluded.source, Some(Origin::ExcludeInterfaces));
    let virtual_ = &redirect.virtual_interfaces;
    let name = match virtual_.source {
        PodSource::Annotation(Annotation::KubevirtInterfaces) => "kubevirtInterfaces",
        _ => "reroute-virtual-interfaces",
    };
    add(name, list(&virtual_.value), virtual_.source, Some(Origin::VirtualInterfaces));
    let dual = Sourced { value: redirect.stack.value == Stack::Dual, source: redirect.stack.source };
    for (variable, switch, origin) in [
        (ProxyEnv::DnsCapture, &redirect.dns, Some(Origin::Dns)),
        (ProxyEnv::DualStack, &dual, Some(Origin::OtherFamily)),
        (ProxyEnv::InvalidDrop, &redirect.drop_invalid, Some(Origin::DropInvalid)),
    ] {
        add(variable.name(), switch.value.to_string(), switch.source, origin);
    }
    settings.extend(of_environment(config, env));
    settings
}

/// Settings from the environment of the process that applies the rules.
fn of_environment(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> [Setting; 3] {
    let setting = |name: &str, value, origin| {
        let source = if env(name).is_some() { Source::Env(name.to_owned()) } else { Source::Default };
        Setting { name: name.to_owned(), value, source, origin }
    };
    [
        setting(Environment::GROUPS, selection(&config.owner_groups_include), Some(Origin::OwnerGroups)),
        setting(Environment::GROUPS_EXCLUDE, list(&config.owner_groups_exclude), None),
        setting(Environment::LOOPBACK, config.loopback.to_string(), Some(Origin::Loopback)),
    ]
}

/// Flags that shape rules, with the rules that exist for them.
static FLAGS: [(&Flag, Option<Origin>); 19] = [
    (&flag::MODE, Some(Origin::Tproxy)),
    (&flag::PROXY_UID, Some(Origin::ProxyUid)),
    (&flag::PROXY_GID, Some(Origin::ProxyGid)),
    (&flag::SERVICE_CIDR, Some(Origin::IncludeOutboundRanges)),
    (&flag::SERVICE_EXCLUDE_CIDR, Some(Origin::ExcludeOutboundRanges)),
    (&flag::INBOUND_PORTS, Some(Origin::IncludeInboundPorts)),
    (&flag::LOCAL_EXCLUDE_PORTS, Some(Origin::ExcludeInboundPorts)),
    (&flag::OUTBOUND_PORTS, Some(Origin::IncludeOutboundPorts)),
    (&flag::OUTBOUND_PORTS_EXCLUDE, Some(Origin::ExcludeOutboundPorts)),
    (&flag::EXCLUDE_INTERFACES, Some(Origin::ExcludeInterfaces)),
    (&flag::KUBE_VIRT_INTERFACES, Some(Origin::VirtualInterfaces)),
    (&flag::REDIRECT_DNS, Some(Origin::Dns)),
    (&flag::CAPTURE_ALL_DNS, None),
    (&flag::DUAL_STACK, Some(Origin::OtherFamily)),
    (&flag::DROP_INVALID, Some(Origin::DropInvalid)),
    (&flag::ENVOY_PORT, None),
    (&flag::INBOUND_CAPTURE_PORT, None),
    (&flag::INBOUND_TUNNEL_PORT, None),
    (&flag::TPROXY_MARK, None),
];

/// Settings from the command line.
#[must_use]
pub(super) fn of_flags(given: &Given, config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Vec<Setting> {
    let flags = FLAGS.iter().map(|(flag, origin)| {
        let given::Value { text, origin: source } = given.value(flag);
        let source = match source {
            given::Origin::Default => Source::Default,
            given::Origin::Env(variable) => Source::Env(variable),
            given::Origin::Flag => Source::Flag,
        };
        let value = match flag.name {
            "proxy-uid" => list(&config.proxy_uids),
            "proxy-gid" => list(&config.proxy_gids),
            _ => text,
        };
        Setting { name: format!("--{}", flag.name), value, source, origin: *origin }
    });
    flags.chain(of_environment(config, env)).collect()
}
