// SPDX-License-Identifier: Apache-2.0
//! Settings with where they come from, and which rules exist for them.

use std::fmt::{self, Display};

use redirect::host::Environment;
use redirect::list::spell;
use redirect::parameters::{Parameter, Source as PodSource};
use redirect::ruleset::Origin;
use redirect::{Config, Redirect};

use crate::flag::{self, Flag};
use crate::given::{self, FlagValues};

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
    PodSecurityContext,
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
            Self::PodSecurityContext => "podSecurityContext",
        }
    }

    /// Key of the annotation or name of the variable.
    #[must_use]
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Annotation(key) => Some(key),
            Self::Env(variable) => Some(variable),
            Self::Default | Self::Flag | Self::SecurityContext | Self::PodSecurityContext => None,
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

/// Settings of a pod, as the CNI plugin reads it.
#[must_use]
pub(super) fn of_pod(
    redirect: &Redirect,
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
) -> Vec<Setting> {
    let mut settings = Vec::with_capacity(17);
    for Parameter { name, value, source, origin } in redirect.parameters() {
        let source = match source {
            PodSource::Default => Source::Default,
            PodSource::Annotation(annotation) => Source::Annotation(annotation.key()),
            PodSource::Env(variable) => Source::Env(variable.name().to_owned()),
            PodSource::SecurityContext => Source::SecurityContext,
            PodSource::PodSecurityContext => Source::PodSecurityContext,
        };
        settings.push(Setting { name: name.to_owned(), value, source, origin: Some(origin) });
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
        setting(Environment::GROUPS, config.owner_groups_include.to_string(), Some(Origin::OwnerGroups)),
        setting(Environment::GROUPS_EXCLUDE, spell(&config.owner_groups_exclude), None),
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
pub(super) fn of_flags(
    given: &FlagValues,
    config: &Config,
    env: &dyn Fn(&str) -> Option<String>,
) -> Vec<Setting> {
    let flags = FLAGS.iter().map(|(flag, origin)| {
        let given::Value { text, origin: source } = given.value(flag);
        let source = match source {
            given::FlagOrigin::Default => Source::Default,
            given::FlagOrigin::Env(variable) => Source::Env(variable),
            given::FlagOrigin::Flag => Source::Flag,
        };
        let value = match flag.name {
            "proxy-uid" => spell(&config.proxy_uids),
            "proxy-gid" => spell(&config.proxy_gids),
            _ => text,
        };
        Setting { name: format!("--{}", flag.name), value, source, origin: *origin }
    });
    flags.chain(of_environment(config, env)).collect()
}
