// SPDX-License-Identifier: Apache-2.0
//! The values that labels can have. Each label is an enum, so that no text of the world becomes a time series.

use protocol::log::AddEnd;

use crate::label::label;

label! {
    /// Result of a pass of the installer; upstream's spelling.
    InstallResult {
        Success = "SUCCESS",
        CopyBinariesFailure = "COPY_BINARIES_FAILURE",
        CreateKubeconfigFailure = "CREATE_KUBECONFIG_FAILURE",
        CreateCniConfigFailure = "CREATE_CNI_CONFIG_FAILURE",
    }
}

label! {
    /// Result of an action on a broken pod; upstream's spelling.
    RepairResult {
        /// Done, and for [`RepairPolicy::Repair`](crate::settings::RepairPolicy) verified.
        Success = "success",
        /// Rules were written and read back, and no packet could be sent that proves all of them.
        Unproven = "unproven",
        /// Nothing to do: already labelled.
        Skip = "skip",
        /// Failed; it is retried.
        Fail = "fail",
    }
}

label! {
    /// Change of a taint.
    #[derive(PartialOrd, Ord)]
    Deed {
        /// Adds it to the node.
        Add = "added",
        /// Removes it from the node.
        Remove = "removed",
    }
}

/// Leadership among the processes that control taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    Ours,
    NotOurs,
}

label! {
    /// Part of an ADD: what the agent sees of it itself, and what the plugin says at its end.
    AddPhase {
        /// Agent: from the plugin's request until its answer is written.
        Answer = "answer",
        /// Of that, what was spent on asking the API server, where the cache did not do.
        Api = "api",
        /// Plugin: from its first request until it has the pod's facts.
        Facts = "facts",
        /// Plugin: from the pod's namespace until the rules are in it.
        Apply = "apply",
        /// Plugin: from start to end.
        Whole = "whole",
    }
}

impl AddPhase {
    /// Possible results.
    #[must_use]
    pub const fn results(self) -> &'static [AddResult] {
        match self {
            Self::Answer | Self::Api => &[AddResult::Found, AddResult::Unknown, AddResult::Failed],
            Self::Facts | Self::Whole => &[AddResult::Redirected, AddResult::Skipped, AddResult::Failed],
            Self::Apply => &[AddResult::Redirected, AddResult::Failed],
        }
    }
}

label! {
    /// Result of a phase of an ADD; for the plugin's phases, of the ADD.
    AddResult {
        /// The pod's facts were found.
        Found = "found",
        /// No such pod, or another one of that name.
        Unknown = "unknown",
        /// The question was malformed, or the API server did not answer; the ADD failed.
        Failed = "failed",
        Redirected = "redirected",
        Skipped = "skipped",
    }
}

impl From<AddEnd> for AddResult {
    fn from(end: AddEnd) -> Self {
        match end {
            AddEnd::Redirected => Self::Redirected,
            AddEnd::Skipped => Self::Skipped,
            AddEnd::Failed => Self::Failed,
        }
    }
}

label! {
    /// Reason for a dropped log line of the plugin.
    LineSkipped {
        /// Malformed.
        Malformed = "malformed",
        /// Too long, or one of too many in a request.
        TooLong = "too_long",
        /// Rate limit.
        TooMany = "too_many",
    }
}

label! {
    /// Source of an answer to the plugin.
    CacheResult {
        Hit = "hit",
        /// The API server: the cache did not know the pod, or knew another of that name.
        Miss = "miss",
        /// A request to the API server that was already in flight.
        Joined = "joined",
        /// None: not cached, and the API server did not answer.
        Failed = "failed",
    }
}

label! {
    /// Watched resource.
    Watched {
        Pods = "pods",
        /// The agent's ConfigMap, or the one of the pods that nodes need.
        ConfigMap = "configmap",
        /// Nodes, or the agent's own node.
        Nodes = "nodes",
        /// The agent's own.
        DaemonSet = "daemonset",
        /// All of them, where ambient mode is set.
        Namespaces = "namespaces",
    }
}

label! {
    /// Result of a change of a node's taints.
    TaintResult {
        Success = "success",
        /// Optimistic concurrency: somebody else changed the taints first; retried.
        Conflict = "conflict",
        /// Failed; it is retried.
        Fail = "fail",
    }
}

label! {
    /// Reason of a watch's restart.
    RestartReason {
        /// Closed by the server in good order.
        Ended = "ended",
        /// The resource version has expired (410).
        Expired = "expired",
        /// Connection refused or broken.
        Disconnected = "disconnected",
        /// Silent for too long.
        Stalled = "stalled",
        /// 401
        Unauthorized = "unauthorized",
        /// 403
        Forbidden = "forbidden",
        /// 429
        Throttled = "throttled",
        /// 5xx
        ServerError = "server_error",
        /// Another 4xx.
        Refused = "refused",
        /// Malformed response.
        Malformed = "malformed",
    }
}

label! {
    /// Obstacle to repairing a broken pod in place.
    Unrepairable {
        /// Its validation is never restarted: `restartPolicy: Never`.
        RestartPolicyNever = "restart_policy_never",
        /// The pod has terminated.
        Finished = "finished",
        /// No network namespace is provably its own.
        NoNamespace = "no_namespace",
        /// It runs in a guest, whose packets meet no rules.
        Sandboxed = "sandboxed",
        /// Its annotations are invalid.
        InvalidPod = "invalid_pod",
        /// The kernel keeps rejecting its rules.
        RulesRefused = "rules_refused",
        /// Its rules were written, and the probe does not see them redirect.
        NotProven = "not_proven",
    }
}

/// A setting's name, as its flag has it. Only names that the agent knows are one: those are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SettingKey(pub &'static str);

impl SettingKey {
    /// Names unknown to the agent.
    pub const UNKNOWN: Self = Self("unknown");
}
