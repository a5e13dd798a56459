// SPDX-License-Identifier: Apache-2.0
//! Writes it down.

use std::io::{self, Write};

use serde_json::json;

use super::{Agent, Content, Finding, JudgedBy, NodeStatus, StatusOutput};

pub(super) fn print(
    seen: &NodeStatus,
    findings: &[Finding],
    now: u64,
    output: StatusOutput,
    out: &mut dyn Write,
) -> io::Result<()> {
    if output == StatusOutput::Json {
        let whole = json!({ "version": env!("CARGO_PKG_VERSION"), "seen": seen, "wrong": findings });
        return writeln!(out, "{whole:#}");
    }
    writeln!(out, "install-cni {}", env!("CARGO_PKG_VERSION"))?;
    for binary in &seen.binaries {
        let what = match &binary.content {
            Content::Shipped => "this agent's",
            Content::Other(_) => "another one",
            Content::Unjudged(sha256) => sha256,
            Content::Unreadable(why) => why,
        };
        writeln!(out, "plugin       {}: {what}", binary.path)?;
    }
    let credentials = &seen.credentials;
    let mode = credentials.mode.map_or_else(|| "absent".to_owned(), |mode| format!("mode {mode:04o}"));
    let expires = match (&credentials.problem, credentials.token_expires) {
        (Some(problem), _) => problem.clone(),
        (None, Some(at)) if at > now => format!("token expires in {} s", at - now),
        (None, Some(at)) => format!("token expired {} s ago", now - at),
        (None, None) => "token without an expiry".to_owned(),
    };
    writeln!(out, "credentials  {} {mode}, {expires}", credentials.path)?;
    let file = seen.conflist.file.as_deref().unwrap_or("no file has our entry as it should be");
    writeln!(out, "conflist     {file}; runtimes see, in this order: {}", seen.conflist.usable.join(", "))?;
    for socket in &seen.sockets {
        writeln!(out, "socket       {} {}", socket.path, socket.problem.as_deref().unwrap_or("answers"))?;
    }
    writeln!(out, "back end     {}", seen.backend.as_deref().unwrap_or("not recorded: the plugin tries"))?;
    let agent = match &seen.agent {
        Agent::Ready => "ready",
        Agent::NotReady(_) => "not ready",
        Agent::Silent(_) => "does not answer",
    };
    writeln!(out, "agent        {agent}")?;
    writeln!(out, "settings     {}", judged_by(seen.judged_by))?;
    for setting in &seen.settings {
        writeln!(out, "setting      {}={} (from {})", setting.key, setting.value, setting.origin)?;
    }
    if findings.is_empty() {
        return writeln!(out, "nothing is wrong");
    }
    for finding in findings {
        writeln!(out, "wrong: {}\n  {}", finding.what, finding.remedy)?;
    }
    Ok(())
}

fn judged_by(judged_by: JudgedBy) -> &'static str {
    match judged_by {
        JudgedBy::Agent => "those of the running agent",
        JudgedBy::Surroundings => {
            "of this command's flags and environment alone, as no agent tells its own: what the ConfigMap says is not known"
        }
    }
}
