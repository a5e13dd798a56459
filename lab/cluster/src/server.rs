// SPDX-License-Identifier: Apache-2.0
//! What the lab's own API server does and says on request. Nobody can ask a real one.

/// The lab's own API server. Users are named as in RBAC: `system:serviceaccount:NAMESPACE:NAME`.
pub trait Server: Send + Sync {
    /// Looks every token up again the next time that it is used, as after ten seconds in which nobody used it.
    fn forget_tokens(&self);

    /// Restarts with other signing keys: open watches end, and tokens of service accounts that were issued so far are refused.
    fn rotate_keys(&self);

    /// Sets its clock so many seconds ahead of the nodes', or behind if negative.
    fn set_clock(&self, ahead: i64);

    /// Is as a version that streams lists (Kubernetes 1.32 and 1.34) or not, above an etcd that can tell its progress (3.4.31, 3.5.13) or not.
    fn stream_lists(&self, streamed: bool, etcd_tells_progress: bool);

    /// Number of a user's lists and watches of a resource that etcd had to answer.
    fn etcd_reads(&self, user: &str, resource: &str) -> usize;
}
