// SPDX-License-Identifier: Apache-2.0
//! Options of `install-cni taint`: the command line, and three variables of the older controller.

use std::time::Duration;

use clap::ValueEnum;

use super::decide::TaintPolicy;
use super::flags::{TaintFlags, boolean};
use super::lease::Timing;
use super::rules::Rule;
use crate::settings::layers::Environment;

/// Label of the agent's pods; upstream's is fixed as well.
const AGENT: &str = "k8s-app=istio-cni-node";
/// Default namespace of the controller.
const NOWHERE: &str = "kube-system";

/// Options of the taint controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaintMode {
    /// Nodes have the taint NodeReadiness:NoSchedule while pods that they need are not ready there, as told by a ConfigMap.
    Readiness,
    /// Nodes that were made with the taint cni.istio.io/not-ready lose it once the agent's pod is ready there, and never get it back.
    Untaint,
}

impl TaintMode {
    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readiness => "readiness",
            Self::Untaint => "untaint",
        }
    }

    /// Default key of the taint.
    #[must_use]
    pub const fn taint(self) -> &'static str {
        match self {
            Self::Readiness => "NodeReadiness",
            Self::Untaint => "cni.istio.io/not-ready",
        }
    }

    /// Policy for a node that is not ready.
    #[must_use]
    pub fn policy(self) -> TaintPolicy {
        match self {
            Self::Readiness => TaintPolicy::Both,
            Self::Untaint => TaintPolicy::OnlyRemove,
        }
    }

    const fn lease(self) -> &'static str {
        match self {
            Self::Readiness => "istio-taint-lock",
            Self::Untaint => "istio-node-untaint",
        }
    }
}

/// Namespaced name of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespacedName {
    pub namespace: String,
    pub name: String,
}

/// Source of the required pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// In a `ConfigMap`.
    Map(NamespacedName),
    /// Fixed.
    Fixed(Vec<Rule>),
}

/// Lifetime of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// For ever, with leader election.
    Daemon,
    /// Until every node was reconciled once.
    Once,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaintOptions {
    /// Mode.
    pub mode: TaintMode,
    pub course: RunKind,
    pub taint: String,
    /// Required pods.
    pub needs: Needs,
    pub lease: NamespacedName,
    pub timing: Timing,
}

/// Invalid options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A leader would act while another one may lead.
    #[error(
        "failed to use --lease-duration {duration:?}, --lease-renew {renew:?} and --lease-retry {retry:?}: each must be longer than the next one, and the first at least 1s"
    )]
    Times {
        /// `--lease-duration`
        duration: Duration,
        /// `--lease-renew`
        renew: Duration,
        /// `--lease-retry`
        retry: Duration,
    },
    /// Malformed boolean variable.
    #[error("failed to use TAINT_RUN-AS-DAEMON={0:?} from the environment: it must be true or false")]
    Daemon(String),
}

impl TaintOptions {
    /// Merges flags and environment, in the namespace `own` (empty if unknown).
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn new(flags: &TaintFlags, environment: &dyn Environment, own: &str) -> Result<Self, OptionsError> {
        let own = if own.is_empty() { NOWHERE } else { own };
        let mode = flags.mode;
        let said = |flag: &Option<String>, variable: &str| {
            let variable = || environment.get(variable).filter(|text| !text.is_empty());
            flag.clone().or_else(variable)
        };
        let or_own = |text: Option<String>| text.unwrap_or_else(|| own.to_owned());
        let daemon = match (flags.run_as_daemon, environment.get("TAINT_RUN-AS-DAEMON")) {
            (Some(flag), _) => flag,
            (None, None) => true,
            (None, Some(text)) => boolean(&text).map_err(|_| OptionsError::Daemon(text))?,
        };
        let needs = match mode {
            TaintMode::Readiness => Needs::Map(NamespacedName {
                namespace: or_own(said(&flags.configmap_namespace, "TAINT_CONFIGMAP-NAMESPACE")),
                name: said(&flags.configmap_name, "TAINT_CONFIGMAP-NAME")
                    .unwrap_or_else(|| "istio-cni-taint-configmap".to_owned()),
            }),
            TaintMode::Untaint => Needs::Fixed(vec![Rule {
                name: "istio-cni".to_owned(),
                namespace: or_own(flags.cni_namespace.clone()),
                labels: AGENT.to_owned(),
                fields: "status.phase!=Failed".to_owned(),
            }]),
        };
        Ok(Self {
            mode,
            course: if daemon { RunKind::Daemon } else { RunKind::Once },
            taint: flags.taint_name.clone().unwrap_or_else(|| mode.taint().to_owned()),
            needs,
            lease: NamespacedName {
                namespace: or_own(flags.lease_namespace.clone()),
                name: flags.lease_name.clone().unwrap_or_else(|| mode.lease().to_owned()),
            },
            timing: timing(flags)?,
        })
    }
}

fn timing(flags: &TaintFlags) -> Result<Timing, OptionsError> {
    let (duration, renew, retry) = (flags.lease_duration, flags.lease_renew, flags.lease_retry);
    if duration > renew && renew > retry && !retry.is_zero() && duration >= Duration::from_secs(1) {
        // Nothing finer than seconds can be written into a lease.
        return Ok(Timing { duration, renew, retry });
    }
    Err(OptionsError::Times { duration, renew, retry })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: TaintFlags,
    }

    fn options(words: &[&str], environment: &[(&str, &str)]) -> Result<TaintOptions, OptionsError> {
        let line = Line::try_parse_from(["taint"].iter().chain(words)).unwrap();
        let environment: BTreeMap<String, String> =
            environment.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        TaintOptions::new(&line.flags, &environment, "mesh")
    }

    fn place(namespace: &str, name: &str) -> NamespacedName {
        NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn each_mode_has_its_defaults() {
        let readiness = options(&["--mode=readiness"], &[]).unwrap();
        assert_eq!(readiness.taint, "NodeReadiness");
        assert_eq!(readiness.needs, Needs::Map(place("mesh", "istio-cni-taint-configmap")));
        assert_eq!(
            (readiness.lease, readiness.timing),
            (place("mesh", "istio-taint-lock"), Timing::default())
        );
        let untaint = options(&["--mode", "untaint", "--cni-namespace", "cni"], &[]).unwrap();
        assert_eq!((untaint.taint.as_str(), untaint.course), ("cni.istio.io/not-ready", RunKind::Daemon));
        assert_eq!(untaint.lease, place("mesh", "istio-node-untaint"));
        let Needs::Fixed(rules) = untaint.needs else { panic!() };
        assert_eq!((rules[0].namespace.as_str(), rules[0].fields.as_str()), ("cni", "status.phase!=Failed"));
    }

    #[test]
    fn the_older_controllers_variables_count_and_flags_beat_them() {
        let old = [
            ("TAINT_RUN-AS-DAEMON", "false"),
            ("TAINT_CONFIGMAP-NAME", "single"),
            ("TAINT_CONFIGMAP-NAMESPACE", "kube-system"),
        ];
        let read = options(&["--mode=readiness"], &old).unwrap();
        assert_eq!((read.needs, read.course), (Needs::Map(place("kube-system", "single")), RunKind::Once));
        let read = options(&["--mode=readiness", "--run-as-daemon", "--configmap-name=x"], &old).unwrap();
        assert_eq!((read.needs, read.course), (Needs::Map(place("kube-system", "x")), RunKind::Daemon));
        let error = options(&["--mode=readiness"], &[("TAINT_RUN-AS-DAEMON", "maybe")]).unwrap_err();
        assert!(error.to_string().contains("\"maybe\""), "{error}");
    }

    #[test]
    fn times_that_would_let_two_lead_are_refused() {
        for words in [["--lease-duration=10s", "--lease-renew=10s"], ["--lease-renew=4s", "--lease-retry=5s"]]
        {
            assert!(options(&["--mode=untaint", words[0], words[1]], &[]).is_err(), "{words:?}");
        }
        let words = ["--mode=untaint", "--lease-duration=2m", "--lease-renew=900ms", "--lease-retry=300ms"];
        assert_eq!(options(&words, &[]).unwrap().timing.duration, Duration::from_secs(120));
    }
}
