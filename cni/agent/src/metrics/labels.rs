// SPDX-License-Identifier: Apache-2.0
//! The values that labels can have. Each label is an enum, so that no text of the world becomes a time series.

use protocol::log::AddEnd;

/// An enum of label values, each with its spelling.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$what])* $value,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// The label's value.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }
    };
}

label! {
    /// How an installation ended; upstream's spelling.
    InstallResult {
        /// Everything is as it should be.
        Success = "SUCCESS",
        /// The binaries could not be copied.
        CopyBinariesFailure = "COPY_BINARIES_FAILURE",
        /// The plugin's credentials could not be written.
        CreateKubeconfigFailure = "CREATE_KUBECONFIG_FAILURE",
        /// Our entry could not be written.
        CreateCniConfigFailure = "CREATE_CNI_CONFIG_FAILURE",
    }
}

label! {
    /// What was done about a broken pod; upstream's spelling.
    RepairType {
        /// Its rules were written.
        Repair = "repair",
        /// It was deleted.
        Delete = "delete",
        /// It was labelled.
        Label = "label",
    }
}

label! {
    /// How that ended; upstream's spelling.
    RepairResult {
        /// Done, and for [`RepairType::Repair`] proven.
        Success = "success",
        /// Rules were written and read back, and no packet could be sent that proves all of them.
        Unproven = "unproven",
        /// Nothing to do: the label was there.
        Skip = "skip",
        /// Not done; it is tried again.
        Fail = "fail",
    }
}

label! {
    /// Part of an ADD: what the agent sees of it itself, and what the plugin says at its end.
    AddPhase {
        /// The plugin's question until its answer is written.
        Answer = "answer",
        /// Of that, what was spent on asking the API server, where the cache did not do.
        Api = "api",
        /// The plugin: from its first question until it has the pod's facts.
        Facts = "facts",
        /// The plugin: from the pod's namespace until the rules are in it.
        Apply = "apply",
        /// The plugin: all of it.
        Whole = "whole",
    }
}

impl AddPhase {
    /// How it can end.
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
    /// How a part of an ADD ended; for what the plugin says, how the ADD ended.
    AddResult {
        /// The pod's facts were known.
        Found = "found",
        /// There is no such pod, or another one of that name.
        Unknown = "unknown",
        /// The question was malformed, or the API server did not answer; the ADD failed.
        Failed = "failed",
        /// The pod's traffic is redirected.
        Redirected = "redirected",
        /// The pod is left alone.
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
    /// Why a log line of the plugin was not taken.
    LineSkipped {
        /// It is no line of a plugin.
        Malformed = "malformed",
        /// It is too long, or came with too many others.
        TooLong = "too_long",
        /// Too many come at once.
        TooMany = "too_many",
    }
}

label! {
    /// Where an answer to the plugin came from.
    CacheResult {
        /// The cache.
        Hit = "hit",
        /// The API server: the cache did not know the pod, or knew another of that name.
        Miss = "miss",
        /// Another question's request to the API server that was under way.
        Joined = "joined",
        /// Nowhere: the cache did not know it and the API server did not answer.
        Failed = "failed",
    }
}

label! {
    /// What is watched through the API.
    Watched {
        /// The node's pods.
        Pods = "pods",
        /// The agent's ConfigMap, or the one that says which pods nodes need.
        ConfigMap = "configmap",
        /// Nodes, or the agent's own one.
        Nodes = "nodes",
    }
}

label! {
    /// How a change of a node's taints ended.
    TaintResult {
        /// It is done.
        Success = "success",
        /// Somebody else changed the taints first; it is tried again.
        Conflict = "conflict",
        /// It failed; it is tried again.
        Fail = "fail",
    }
}

label! {
    /// Why a watch began anew.
    RestartReason {
        /// The server ended it in good order.
        Ended = "ended",
        /// The server no longer has the version that we are at (410).
        Expired = "expired",
        /// The connection broke, or could not be made.
        Disconnected = "disconnected",
        /// Nothing was heard for too long.
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
        /// What came could not be read.
        Malformed = "malformed",
    }
}

label! {
    /// Why a broken pod cannot be repaired in place.
    Unrepairable {
        /// Nothing will start its validation again: `restartPolicy: Never`.
        RestartPolicyNever = "restart_policy_never",
        /// It is over.
        Finished = "finished",
        /// No network namespace is provably its own.
        NoNamespace = "no_namespace",
        /// Its annotations do not say what rules it needs.
        InvalidPod = "invalid_pod",
        /// The kernel refused its rules, time and again.
        RulesRefused = "rules_refused",
        /// Its rules were written, and the probe does not see them redirect.
        NotProven = "not_proven",
    }
}

/// A setting's key as in the ConfigMap. Only keys that the agent knows are one: those are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SettingKey(pub &'static str);

impl SettingKey {
    /// For keys that the agent does not know.
    pub const UNKNOWN: Self = Self("unknown");
}
