// SPDX-License-Identifier: Apache-2.0
//! Pods of sandboxed runtimes (Kata Containers, gVisor): the application runs in a guest, whose packets go from its device to the pod's interface
//! below netfilter. Rules in the pod's network namespace are right and never met.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Parts of the names that such runtimes' classes have.
const KNOWN: [&str; 5] = ["kata", "gvisor", "runsc", "firecracker", "kuasar"];

/// Links of a pod's network namespace that can lead to a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestLinks {
    /// Tap devices, macvtap and ipvtap links, by name.
    pub taps: Vec<String>,
    /// Interfaces whose incoming packets traffic control sends on, before netfilter sees them.
    pub diverted: Vec<Diverted>,
}

/// An interface with an ingress filter that redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diverted {
    /// The interface.
    pub from: String,
    /// The interface that packets are sent to.
    pub to: String,
}

/// Sign that a pod runs in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// The name of its RuntimeClass.
    Class,
    /// A tap device in its namespace.
    Tap(String),
    /// An ingress filter that sends the packets of the first interface to the second.
    Diverted(String, String),
}

/// A pod of a sandboxed runtime.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sandboxed {
    /// `runtimeClassName`; empty if the pod has none.
    pub class: String,
    /// Sign of the guest.
    pub sign: Sign,
}

impl fmt::Display for Sandboxed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class.as_str() {
            "" => out.write_str("the node's runtime runs this pod in a guest")?,
            class => write!(out, "runtime class {class} runs this pod in a guest")?,
        }
        match &self.sign {
            Sign::Class => {}
            Sign::Tap(tap) => write!(out, " (tap device {tap})")?,
            Sign::Diverted(from, to) => write!(out, " (an ingress filter redirects {from} to {to})")?,
        }
        out.write_str(
            ": its packets do not pass the rules of the pod's network namespace, so redirection cannot be proven; let the init container \
             istio-init write the rules in the guest, or use a runtime without a guest",
        )
    }
}

/// Decides by the name of the RuntimeClass alone: the guest's device comes after ADD, and gVisor has none.
#[must_use]
pub fn by_class(class: Option<&str>) -> Option<Sandboxed> {
    let class = class.unwrap_or_default();
    let name = class.to_ascii_lowercase();
    KNOWN
        .iter()
        .any(|known| name.contains(known))
        .then(|| Sandboxed { class: class.to_owned(), sign: Sign::Class })
}

/// Decides by the RuntimeClass and by what is in the namespace. Without a class, a tap device alone is no sign: virtual machines in pods
/// (KubeVirt) have one, and their packets meet rules.
#[must_use]
pub fn by_links(class: Option<&str>, links: &GuestLinks) -> Option<Sandboxed> {
    let name = class.unwrap_or_default();
    let has_class = !name.is_empty();
    let diverted = links
        .diverted
        .iter()
        .find(|diverted| has_class || links.taps.contains(&diverted.to))
        .map(|diverted| Sign::Diverted(diverted.from.clone(), diverted.to.clone()));
    let tap = || links.taps.first().filter(|_| has_class).cloned().map(Sign::Tap);
    let sign = diverted.or_else(tap).map(|sign| Sandboxed { class: name.to_owned(), sign });
    sign.or_else(|| by_class(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(taps: &[&str], diverted: &[(&str, &str)]) -> GuestLinks {
        GuestLinks {
            taps: taps.iter().map(|&tap| tap.to_owned()).collect(),
            diverted: diverted
                .iter()
                .map(|&(from, to)| Diverted { from: from.to_owned(), to: to.to_owned() })
                .collect(),
        }
    }

    fn sign(class: Option<&str>, links: &GuestLinks) -> Option<Sign> {
        by_links(class, links).map(|sandboxed| sandboxed.sign)
    }

    #[test]
    fn classes_of_known_runtimes_are_sandboxed_whatever_is_in_the_namespace() {
        for class in
            ["kata", "kata-qemu", "my-Kata-clh", "kata-remote", "gvisor", "runsc", "kata-fc", "firecracker"]
        {
            assert_eq!(sign(Some(class), &GuestLinks::default()), Some(Sign::Class), "{class}");
            assert!(by_class(Some(class)).is_some(), "{class}");
        }
        for class in [None, Some(""), Some("runc"), Some("crun"), Some("nvidia"), Some("wasmtime")] {
            assert_eq!(sign(class, &GuestLinks::default()), None, "{class:?}");
        }
    }

    #[test]
    fn a_class_of_any_name_is_sandboxed_with_a_way_to_a_guest() {
        let tcfilter = links(&["tap0_kata"], &[("eth0", "tap0_kata"), ("tap0_kata", "eth0")]);
        let by_filter = Some(Sign::Diverted("eth0".to_owned(), "tap0_kata".to_owned()));
        assert_eq!(sign(Some("secure"), &tcfilter), by_filter);
        assert_eq!(
            sign(Some("secure"), &links(&[], &[("eth0", "g0")])),
            Some(Sign::Diverted("eth0".into(), "g0".into()))
        );
        assert_eq!(sign(Some("secure"), &links(&["tap0"], &[])), Some(Sign::Tap("tap0".to_owned())));
        assert_eq!(sign(None, &tcfilter), by_filter, "the node's default runtime");
    }

    #[test]
    fn a_virtual_machine_in_an_ordinary_pod_is_none() {
        assert_eq!(sign(None, &links(&["tap0"], &[])), None);
        assert_eq!(sign(None, &links(&["tap0"], &[("eth0", "ifb0")])), None, "shaping");
    }
}
