// SPDX-License-Identifier: Apache-2.0
//! The containers that injection adds: the proxy, and whoever programs or checks the rules before it.

use serde_json::{Value, json};

use crate::config::{Config, Mode, Placement, Programming, Rules};
use crate::traffic::Traffic;

pub const PROXY: &str = "istio-proxy";
/// Init container that writes the rules.
pub const INIT: &str = "istio-init";
/// Init container that validates rules of a plugin.
pub const VALIDATION: &str = "istio-validation";

/// Proxy's group in rules where the proxy is root.
const USUAL_ID: u32 = 1337;

fn env(config: &Config) -> Vec<Value> {
    config.metadata.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// Init container for the rules; `None` without rules.
pub(crate) fn first(traffic: &Traffic, config: &Config) -> Option<Value> {
    if traffic.mode == Mode::None {
        return None;
    }
    let mut args = vec!["istio-iptables".to_owned()];
    args.extend(traffic.arguments(config));
    args.push(format!("--log_output_level={}", config.log_level));
    if config.programming == Programming::Cni {
        args.extend(["--run-validation".to_owned(), "--skip-rule-apply".to_owned()]);
    }
    if config.rules == Rules::Nftables {
        args.push("--native-nftables".to_owned());
    }
    let (name, context) = match config.programming {
        Programming::Cni => (VALIDATION, checker(traffic.mode, config)),
        Programming::Init => (INIT, programmer()),
    };
    Some(json!({
        "name": name,
        "image": config.image,
        "args": args,
        "env": env(config),
        "securityContext": context,
    }))
}

/// It may do nothing; that it has the proxy's identity is how its probe meets the rules.
fn checker(mode: Mode, config: &Config) -> Value {
    let (uid, gid) = if mode == Mode::Tproxy { (USUAL_ID, USUAL_ID) } else { (config.uid, config.gid) };
    json!({
        "allowPrivilegeEscalation": false,
        "privileged": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": uid,
        "runAsGroup": gid,
    })
}

fn programmer() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "privileged": false,
        "capabilities": { "add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"] },
        "readOnlyRootFilesystem": false,
        "runAsNonRoot": false,
        "runAsUser": 0,
        "runAsGroup": 0,
    })
}

/// The proxy. Under TPROXY it takes what is addressed to others, which is root's privilege.
pub(crate) fn proxy(traffic: &Traffic, config: &Config) -> Value {
    let mut env = env(config);
    env.push(json!({ "name": "ISTIO_META_INTERCEPTION_MODE", "value": traffic.mode.to_string() }));
    let mut context = json!({
        "allowPrivilegeEscalation": false,
        "privileged": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "runAsUser": config.uid,
        "runAsGroup": config.gid,
    });
    if traffic.mode == Mode::Tproxy {
        context["capabilities"]["add"] = json!(["NET_ADMIN"]);
        context["runAsNonRoot"] = json!(false);
        context["runAsUser"] = json!(0);
        context["runAsGroup"] = json!(USUAL_ID);
    }
    let mut container = json!({
        "name": PROXY,
        "image": config.image,
        "args": ["proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local"],
        "env": env,
        "securityContext": context,
    });
    if config.placement == Placement::Native {
        container["restartPolicy"] = json!("Always");
    }
    container
}
