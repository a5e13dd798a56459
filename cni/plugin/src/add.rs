// SPDX-License-Identifier: Apache-2.0
//! ADD: gather, decide, apply. Everything that can be refused is refused before the pod's namespace is touched, and a pod
//! that needs rules never gets success without them.

use protocol::agent::PodKey;
use protocol::args::CniArgs;
use protocol::env::NetnsOverride;
use protocol::error::CniError;
use protocol::log::{APPLY_MICROS, AddEnd, FACTS_MICROS};
use protocol::netconf::{NetConf, SandboxedRuntimes};
use protocol::result::CniResult;
use redirect::Enrolment;
use redirect::skip::{NamedPod, SkipReason, by_call};

use crate::api::Patience;
use crate::apply::{self, Site};
use crate::context::Call;
use crate::failure::Failure;
use crate::gather;
use crate::kernel::Namespace;

/// Serves an ADD; the text is the result.
///
/// # Errors
/// As [`Failure`] says; the runtime then undoes the whole chain and tries again.
pub fn run(call: &mut Call<'_>, stdin: &[u8]) -> Result<String, CniError> {
    let conf = NetConf::parse(stdin)?;
    call.configure(&conf);
    let args = CniArgs::parse(&call.invocation.args)?;
    attach(call, &conf, args).map_err(|failure| failure.to_cni())
}

fn attach(call: &mut Call<'_>, conf: &NetConf, args: CniArgs) -> Result<String, Failure> {
    // The agent compares it with the list that has our entry: a runtime may go by another one.
    let key = PodKey { network: conf.header.name.clone(), ..call.pod_key(args) };
    let asked_at = call.clock.now();
    let result = result(conf)?;
    let pod = NamedPod { name: &key.name, namespace: &key.namespace };
    let asked = match by_call(pod, conf) {
        Some(reason) => Err(reason),
        // The agent looks the pod up while we look at the namespace.
        None => Ok(gather::ask(call, conf, &key, &Patience::ADD)),
    };
    let netns = open(call)?;
    if conf.ambient_enabled {
        call.log.warn("ambient mode is not supported by this build; going on as for sidecars", &[]);
    }
    let asked = match asked {
        Ok(asked) => asked,
        Err(reason) => return Ok(skip(call, &reason, result)),
    };
    let gathered = gather::facts(call, conf, &key, asked, &Patience::ADD);
    call.timed(FACTS_MICROS, asked_at);
    let (facts, teller) = gathered?;
    let redirect = match redirect::enrol_by(&facts, conf.no_interception)? {
        Enrolment::Skip(reason) => return Ok(skip(call, &reason, result)),
        Enrolment::Enrol(redirect) => redirect,
    };
    for warning in &redirect.warnings {
        call.log.warn("proxy setting ignored", &[("reason", warning)]);
    }
    for shared in &redirect.shared {
        call.log.warn("outbound traffic of a container bypasses the proxy", &[("reason", shared)]);
    }
    let site = Site::find(netns?, conf, call)?;
    if let Some(sandboxed) = site.sandboxed(redirect.runtime_class.as_deref())? {
        if conf.sandboxed_runtimes == SandboxedRuntimes::Refuse {
            return Err(Failure::Sandboxed(sandboxed));
        }
        call.log.warn("the pod's packets meet no rules", &[("reason", &sandboxed)]);
    }
    let apply_at = call.clock.now();
    let applied = apply::apply(&redirect, &site);
    call.timed(APPLY_MICROS, apply_at);
    let done = applied?;
    if let Some(reason) = done.unsandboxed() {
        call.log.warn("the iptables tools saw the node's files", &[("reason", &reason)]);
    }
    if let Some(open) = done.open() {
        call.log.warn("the namespace had open connections", &[("found", &open)]);
    }
    call.ends(AddEnd::Redirected);
    let fields = &[("told_by", &teller.name() as _), ("rules", &done as _), ("backend", &done.form() as _)];
    call.log.info("traffic is redirected", fields);
    Ok(result)
}

fn skip(call: &mut Call<'_>, reason: &SkipReason, result: String) -> String {
    call.ends(AddEnd::Skipped);
    call.log.info("pod left alone", &[("reason", &reason.code()), ("detail", reason)]);
    result
}

/// Result of a successful ADD. Made first: a result that cannot be encoded must not leave rules behind.
fn result(conf: &NetConf) -> Result<String, Failure> {
    let empty = CniResult::empty();
    Ok(conf.prev_result.as_ref().unwrap_or(&empty).encode(conf.header.version)?)
}

/// The pod's namespace. One that cannot be opened is an error only for a pod that needs rules; the plugin's own would turn the
/// node's traffic upside down, so it is refused before anything else.
fn open(call: &Call<'_>) -> Result<Result<Box<dyn Namespace>, Failure>, Failure> {
    let path = call.invocation.netns.clone().unwrap_or_default();
    let netns = match call.kernel.open(&path) {
        Ok(netns) => netns,
        Err(error) => return Ok(Err(error.into())),
    };
    if call.invocation.netns_override == NetnsOverride::Refuse && netns.is_own()? {
        return Err(Failure::OwnNetns { path });
    }
    Ok(Ok(netns))
}
