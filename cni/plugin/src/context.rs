// SPDX-License-Identifier: Apache-2.0
//! The world of one call, as its command works with it.

use std::time::Duration;

use protocol::agent::PodKey;
use protocol::args::CniArgs;
use protocol::env::Invocation;
use protocol::log::{ADD_MICROS, AddEnd, RESULT};
use protocol::netconf::NetConf;

use crate::agent::Agent;
use crate::clock::Clock;
use crate::http::Api;
use crate::kernel::Kernel;
use crate::log::Log;
use crate::log_out::Outlets;
use crate::world::Env;

/// Exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0
    Success,
    /// 1, with an error on stdout; of a diagnosis: it differs.
    Failure,
    /// 2, of a diagnosis: nobody can tell.
    Undecided,
    /// 64, of a diagnosis: the command line is wrong.
    Usage,
}

impl Exit {
    /// The process' exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Undecided => 2,
            Self::Usage => 64,
        }
    }
}

/// Context of a command.
pub struct Call<'w> {
    pub invocation: Invocation,
    /// Looks an environment variable up.
    pub env: Env<'w>,
    /// Time.
    pub clock: &'w dyn Clock,
    /// The node agent.
    pub agent: &'w dyn Agent,
    /// The API server.
    pub api: &'w dyn Api,
    /// Network namespaces and what is in them.
    pub kernel: &'w dyn Kernel,
    /// Log lines.
    pub log: Log<'w>,
    pub(crate) outlets: Option<Outlets>,
    began: Duration,
}

impl<'w> Call<'w> {
    /// A call in its world.
    pub fn new(
        invocation: Invocation,
        (env, clock): (Env<'w>, &'w dyn Clock),
        (agent, api, kernel): (&'w dyn Agent, &'w dyn Api, &'w dyn Kernel),
        log: Log<'w>,
    ) -> Self {
        Self { invocation, env, clock, agent, api, kernel, log, outlets: None, began: clock.now() }
    }

    /// Takes over what the configuration says of logs.
    pub fn configure(&mut self, conf: &NetConf) {
        self.log.set_threshold(conf.log_level);
        if let Some(text) = &conf.unknown_log_level {
            self.log.warn("plugin_log_level is unknown, info is used", &[("plugin_log_level", text)]);
        }
        if conf.knows_agent() {
            self.outlets = Some(Outlets { file: conf.log_file(), socket: conf.log_socket() });
        }
    }

    /// A phase ends that began at `since`. How long it took goes into the log lines from now on.
    pub fn timed(&mut self, phase: &'static str, since: Duration) {
        let micros = self.clock.now().saturating_sub(since).as_micros();
        self.log.label(phase, u64::try_from(micros).unwrap_or(u64::MAX).to_string());
    }

    /// An ADD ends like this: its last line comes next.
    pub fn ends(&mut self, end: AddEnd) {
        self.log.label(RESULT, end.name().to_owned());
        self.timed(ADD_MICROS, self.began);
    }

    /// The pod that `args` name. Its name goes into the log lines from now on.
    pub fn pod_key(&mut self, args: CniArgs) -> PodKey {
        self.log.label("pod", format!("{}/{}", args.pod_namespace, args.pod_name));
        self.log.label("if", self.invocation.ifname.clone());
        PodKey {
            namespace: args.pod_namespace,
            name: args.pod_name,
            uid: args.pod_uid,
            container_id: self.invocation.container_id.clone(),
            network: String::new(),
        }
    }
}
