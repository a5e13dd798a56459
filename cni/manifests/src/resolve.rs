// SPDX-License-Identifier: Apache-2.0
//! From what an operator gives to [`Values`]: defaults, then profile, release, platform, and over all of them the operator.

use serde_json::{Value, json};

use crate::check;
use crate::layers::{Family, defaults, get, overlay, put, settle_null, take_out};
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::place::{KeyPrefix, OPERATOR};
use crate::render::has_policies;
use crate::skew::Minor;
use crate::spelling;
use crate::values::{Backend, POD_FIELDS, Provider, Release, ResourceScope, StatusGate, Values};

/// Inputs beside the values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// Release.
    pub release: Release,
    /// Version of the API server, if known.
    pub kube_version: Option<String>,
    /// `--platform`
    pub platform: Option<String>,
    /// `--profile`
    pub profile: Option<String>,
    /// The image that was asked for besides the values: a whole reference, which wins over what they say.
    pub image: Option<String>,
    /// Prefix of values in messages.
    pub place: KeyPrefix,
    /// A purge is rendered: it has pods whatever the inputs install.
    pub purge: bool,
}

impl Context {
    /// Selected file of a family.
    fn asked(&self, family: Family) -> Option<GivenValue> {
        let name = match family {
            Family::Platform => self.platform.as_deref(),
            Family::Profile => self.profile.as_deref(),
            Family::Compat => None,
        };
        name.map(|name| GivenValue::new(format!("--{}", family.field()), name))
    }

    /// Checks the selected names.
    ///
    /// # Errors
    /// Unknown names.
    pub fn check(&self) -> Result<(), Mistakes> {
        let asked = [Family::Platform, Family::Profile].into_iter().filter_map(|family| {
            let given = self.asked(family)?;
            let name = given.value.as_str().unwrap_or_default().to_owned();
            family.unknown(&name, || given)
        });
        Mistakes(asked.collect()).none()
    }
}

/// Plugin directory of GKE's nodes.
const GKE_BIN_DIR: &str = "/home/kubernetes/bin";
/// Plugin directory of other nodes.
const BIN_DIR: &str = "/opt/cni/bin";

impl Values {
    /// Fills in what the operator did not give.
    ///
    /// # Errors
    /// Everything that is wrong with the values.
    pub fn resolve(user: &Value, context: &Context) -> Result<Self, Mistakes> {
        let mut user = user.clone();
        if user.is_null() {
            user = Value::Object(serde_json::Map::new());
        }
        settle_null(&mut user);
        let mut user = spelling::one(&user)?;
        let mut mistakes = Mistakes::default();
        mistakes.keep(check::check(&mut user, KeyPrefix::default()));
        mistakes.keep(context.check());
        mistakes.none()?;

        let mut all = defaults();
        for family in [Family::Profile, Family::Compat, Family::Platform] {
            if let Some((name, layer)) = choose(family, &user, context)? {
                overlay(&mut all, &layer);
                put(&mut user, family.field(), name.into());
            }
        }
        overlay(&mut all, &user);
        take_out(&mut all);
        if let Some(image) = &context.image {
            put(&mut all, "image", image.as_str().into());
        }
        Self::typed(all, context)
    }

    fn typed(all: Value, context: &Context) -> Result<Self, Mistakes> {
        let mut values: Self = serde_json::from_value(all.clone()).map_err(|error| {
            Mistakes::from(Mistake::Document { what: "values".to_owned(), why: error.to_string() })
        })?;
        if values.cni_bin_dir.is_empty() {
            let gke = context.kube_version.as_deref().is_some_and(|version| version.contains("-gke"));
            values.cni_bin_dir = if gke { GKE_BIN_DIR } else { BIN_DIR }.to_owned();
        }
        values.is_before_1_30 = context.kube_version.as_deref().is_some_and(is_before_1_30);
        values.use_app_armor_annotation.get_or_insert(values.is_before_1_30);
        values.release = context.release.clone();
        values.all = all;
        let mut mistakes = contradictions(&values, context.place);
        mistakes.0.extend(ambient(&values, context));
        mistakes.0.extend(without_policies(&values, context));
        mistakes.0.extend(limits(&values, context));
        mistakes.none()?;
        Ok(values)
    }
}

fn is_before_1_30(version: &str) -> bool {
    Minor::of(version).is_some_and(|minor| minor < Minor { major: 1, minor: 30 })
}

/// The file of a family that the values name, at the root or else in `global`, or that was asked for besides them.
fn choose(family: Family, user: &Value, context: &Context) -> Result<Option<(String, Value)>, Mistakes> {
    let paths = [family.field().to_owned(), format!("global.{}", family.field())];
    let named = paths.iter().find_map(|path| {
        let name = get(user, path)?.as_str().filter(|name| !name.is_empty())?;
        Some(GivenValue::new(path.clone(), name))
    });
    let given = match (named, context.asked(family)) {
        (Some(one), Some(other)) if one.value != other.value => {
            return Err(Mistake::Both { one, other }.into());
        }
        (one, other) => one.or(other),
    };
    let name = given.as_ref().and_then(|given| given.value.as_str());
    Ok(name.and_then(|name| Some((name.to_owned(), family.layer(name)?))))
}

/// Contradictions between values, whatever their layers.
fn contradictions(values: &Values, place: KeyPrefix) -> Mistakes {
    let given = |field: &str, value: Value| GivenValue::new(place.name(field), value);
    let mut mistakes = Mistakes::default();
    if values.provider == Provider::Multus && values.chained {
        mistakes.0.push(Mistake::Contradiction {
            one: given("chained", true.into()),
            other: given("provider", "multus".into()),
            why: "Multus runs the plugin from a file of its own; set chained: false, or provider: default"
                .to_owned(),
        });
    }
    let on_host =
        values.host_network || (values.ambient.enabled && values.ambient.share_host_network_namespace);
    if values.status_gate == StatusGate::Agent && !on_host {
        mistakes.0.push(Mistake::Contradiction {
            one: given("statusGate", "agent".into()),
            other: given("hostNetwork", false.into()),
            why: "an agent that needs the pod network would wait for itself; set hostNetwork: true"
                .to_owned(),
        });
    }
    mistakes.0.extend(without_tools(values, place));
    mistakes
}

/// Rejects ambient mode, which this agent does not serve, wherever it comes from. A purge removes whatever was installed.
fn ambient(values: &Values, context: &Context) -> Option<Mistake> {
    let accepted = "ambient.acceptUnredirected";
    let is_true = |text: &&String| ["1", "t", "T", "true", "TRUE", "True"].contains(&text.as_str());
    let variable = values.env.get("AMBIENT_ENABLED").filter(is_true);
    let given = if values.ambient.enabled && values.profile == "ambient" {
        let field = match context.profile {
            Some(_) => "--profile".to_owned(),
            None if context.place == OPERATOR => "spec.profile".to_owned(),
            None => context.place.name("profile"),
        };
        GivenValue::new(field, values.profile.as_str())
    } else if values.ambient.enabled {
        GivenValue::new(context.place.name("ambient.enabled"), true)
    } else {
        GivenValue::new(context.place.name("env.AMBIENT_ENABLED"), variable?.as_str())
    };
    let is_rejected = values.enabled && !context.purge && !values.ambient.accept_unredirected;
    is_rejected.then(|| Mistake::Contradiction {
        one: given,
        other: GivenValue::new(context.place.name(accepted), false),
        why: format!(
            "this node agent serves sidecars only, and pods of ambient mode would start without redirection, past ztunnel; remove it, or set {accepted}: true"
        ),
    })
}

/// Rejects rights in the whole cluster for a server that cannot limit them, unless that was decided. A renderer may be wrong about the server, and nobody reads
/// what `helm template` leaves out.
fn without_policies(values: &Values, context: &Context) -> Option<Mistake> {
    let is_rejected = has_policies(values) && values.is_before_1_30 && !context.purge;
    let version = context.kube_version.as_deref().unwrap_or_default();
    is_rejected.then(|| Mistake::Contradiction {
        one: GivenValue::new(context.place.name("admissionPolicy.enabled"), true),
        other: GivenValue::new("kubeVersion", version),
        why: "before 1.30 Kubernetes has no ValidatingAdmissionPolicy, and without it an agent's token can change pods or nodes of the whole cluster; give your server's version (--kube-version), or set admissionPolicy.enabled: false".to_owned(),
    })
}

/// Rejects a back end whose programs are not in the image.
fn without_tools(values: &Values, place: KeyPrefix) -> Option<Mistake> {
    let wants = matches!(values.backend, Backend::IptablesNft | Backend::IptablesLegacy);
    let given = |field: &str, value: Value| GivenValue::new(place.name(field), value);
    (wants && !values.iptables_tools).then(|| Mistake::Contradiction {
        one: given("backend", serde_json::json!(values.backend)),
        other: given("iptablesTools", false.into()),
        why: "the image has no iptables tools; set backend: auto, nft-compat or nft, or name an image that has them and set iptablesTools: true"
            .to_owned(),
    })
}

/// Values that cannot be rendered.
fn limits(values: &Values, context: &Context) -> Vec<Mistake> {
    let place = context.place;
    let installs_pods = values.enabled && values.global.resource_scope != ResourceScope::Cluster;
    let has_pods = context.purge || installs_pods;
    let image = has_pods.then(|| unnamed(values, place)).flatten();
    image.into_iter().chain(surge(values, place)).chain(pod_fields(values, place)).collect()
}

/// A second value of such a variable would beat the pod's own.
fn pod_fields(values: &Values, place: KeyPrefix) -> impl Iterator<Item = Mistake> {
    POD_FIELDS.into_iter().filter_map(move |(name, path)| {
        let given = GivenValue::new(place.name(&format!("env.{name}")), values.env.get(name)?.as_str());
        Some(Mistake::Wrong { given, wanted: format!("left out: it is {path} of the agent's pod") })
    })
}

/// There is no image of ours on any registry: a name that was guessed could be anybody's, and it runs with the node's rights.
fn unnamed(values: &Values, place: KeyPrefix) -> Option<Mistake> {
    let wrong = |field: &str, value: &str, why| {
        Some(Mistake::Image { given: GivenValue::new(place.name(field), value), why })
    };
    if let Some((_, name)) = values.image.rsplit_once('/') {
        let is_fixed = name.contains([':', '@']);
        return if is_fixed { None } else { wrong("image", &values.image, "it has no tag and no digest") };
    }
    let global = &values.global;
    if values.hub.is_empty() && global.hub.is_empty() {
        let why = "set hub and tag (or global.hub and global.tag) to where you keep the image, or image to a whole reference such as registry.example.com/mesh/install-cni@sha256:…";
        return wrong("hub", "", why);
    }
    if values.tag.is_empty() && global.tag.is_empty() {
        return wrong("tag", "", "set tag (or global.tag), or image to a whole reference with its digest");
    }
    None
}

/// With a surge, a node has the old agent and the new one at once, each of which restores what it has installed itself.
fn surge(values: &Values, place: KeyPrefix) -> Option<Mistake> {
    let path = ["rollingUpdate", "maxSurge"];
    let given = values.update_strategy.get(path[0]).and_then(|rolling| rolling.get(path[1]))?;
    let is_none = [Value::Null, json!(0), json!("0"), json!("0%")].contains(given);
    let field = place.name(&format!("updateStrategy.{}", path.join(".")));
    (!is_none)
        .then(|| Mistake::Wrong { given: GivenValue::new(field, given.clone()), wanted: SURGE.to_owned() })
}

/// Permitted `maxSurge`, and why.
const SURGE: &str = "0: two agents on one node, the old one and the new, would undo each other's work; set maxUnavailable instead";

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
