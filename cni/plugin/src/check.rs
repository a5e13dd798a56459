// SPDX-License-Identifier: Apache-2.0
//! CHECK: fails only for a pod that is known, needs rules, and has none. Some runtimes call it after each ADD and for
//! each pod that they find when they start, and end a pod that fails: what cannot be told for sure is a success. So is a dry run, whose ADD
//! writes rules to a file.

use protocol::args::CniArgs;
use protocol::error::{CniError, Code};
use protocol::netconf::NetConf;
use redirect::Enrolment;
use redirect::skip::{NamedPod, by_call};

use crate::api::Patience;
use crate::apply::{DRY_RUN, dry_run};
use crate::context::Call;
use crate::gather;

/// Serves a CHECK; there is nothing to print.
///
/// # Errors
/// When the pod must have rules and has none.
pub fn run(call: &mut Call<'_>, stdin: &[u8]) -> Result<String, CniError> {
    match verdict(call, stdin) {
        Verdict::Unredirected => Err(CniError::new(
            Code::PLUGIN,
            "the pod must be redirected and its network namespace holds no rule of ours",
        )
        .with_details("its traffic bypasses the proxy: delete the pod, or let the node agent repair it")),
        Verdict::Fine => Ok(String::new()),
        Verdict::Unknown(reason) => {
            call.log.warn("check passes unchecked", &[("reason", &reason)]);
            Ok(String::new())
        }
    }
}

enum Verdict {
    Fine,
    Unredirected,
    Unknown(String),
}

fn verdict(call: &mut Call<'_>, stdin: &[u8]) -> Verdict {
    let (conf, args) = match (NetConf::parse(stdin), CniArgs::parse(&call.invocation.args)) {
        (Ok(conf), Ok(args)) => (conf, args),
        (Err(error), _) | (_, Err(error)) => return Verdict::Unknown(error.to_string()),
    };
    call.configure(&conf);
    let key = call.pod_key(args);
    let pod = NamedPod { name: &key.name, namespace: &key.namespace };
    if by_call(pod, &conf).is_some() {
        return Verdict::Fine;
    }
    if let Some(path) = dry_run(call.env) {
        call.log.info(
            "check passes in a dry run: rules are in a file, not applied",
            &[(DRY_RUN, &path.display())],
        );
        return Verdict::Fine;
    }
    // Whoever the pod is, with rules it is right; a runtime that starts calls this for one pod after the other.
    match holds_rules(call) {
        Ok(true) => return Verdict::Fine,
        Ok(false) => {}
        Err(reason) => return Verdict::Unknown(reason),
    }
    let asked = gather::ask(call, &conf, &key, &Patience::CHECK);
    let facts = match gather::facts(call, &conf, &key, asked, &Patience::CHECK) {
        Ok((facts, _)) => facts,
        Err(error) => return Verdict::Unknown(error.to_string()),
    };
    match redirect::enrol_by(&facts, conf.no_interception) {
        Ok(Enrolment::Enrol(_)) => Verdict::Unredirected,
        Ok(Enrolment::Skip(_)) => Verdict::Fine,
        Err(error) => Verdict::Unknown(error.to_string()),
    }
}

fn holds_rules(call: &Call<'_>) -> Result<bool, String> {
    let path = call.invocation.netns.clone().unwrap_or_default();
    let netns = call.kernel.open(&path).map_err(|error| error.to_string())?;
    netns.has_rules_of_ours().map_err(|error| error.to_string())
}
