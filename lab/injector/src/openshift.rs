// SPDX-License-Identifier: Apache-2.0
//! The proxy's identity on OpenShift: a namespace has a range of UIDs, and the proxy is the last of them.

use serde_json::{Map, Value};

use crate::containers::PROXY;

/// UID range of a namespace.
const USERS: &str = "openshift.io/sa.scc.uid-range";
/// GID range of a namespace.
const GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";
/// Whoever the proxy is where the namespace says nothing that can be read.
const USUAL_ID: u32 = 1337;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyIds {
    pub uid: u32,
    pub gid: u32,
}

/// Identity of the proxy in a namespace with these annotations.
#[must_use]
pub fn proxy_ids(namespace: &Map<String, Value>) -> ProxyIds {
    let said = |name: &str| namespace.get(name).and_then(Value::as_str);
    let users = said(USERS);
    let first_groups = said(GROUPS).or(users).and_then(|groups| groups.split(',').next());
    ProxyIds {
        uid: users.and_then(last).unwrap_or(USUAL_ID),
        gid: first_groups.and_then(last).unwrap_or(USUAL_ID),
    }
}

/// Last of a range, `START/SIZE` or `START-END`.
fn last(block: &str) -> Option<u32> {
    let numbers = |separator| {
        let (start, other) = block.split_once(separator)?;
        Some((start.parse::<u32>().ok()?, other.parse::<u32>().ok()?))
    };
    match numbers('/') {
        Some((start, size)) => start.checked_add(size)?.checked_sub(1),
        None => numbers('-').map(|(_, end)| end),
    }
}

/// Forgets the user and group of a proxy that the pod declares if they are those of the app: then the platform assigned them, not
/// the user.
pub(crate) fn forget_assigned(pod: &mut Value) {
    let Some(containers) = pod["spec"]["containers"].as_array_mut() else { return };
    let user = |container: &Value| container["securityContext"]["runAsUser"].as_i64().unwrap_or(0);
    let app = containers.iter().rfind(|container| container["name"] != PROXY).map(user);
    for proxy in containers.iter_mut().filter(|container| container["name"] == PROXY) {
        if Some(user(proxy)) == app
            && let Some(context) = proxy["securityContext"].as_object_mut()
        {
            context.remove("runAsUser");
            context.remove("runAsGroup");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids(annotations: &Value) -> (u32, u32) {
        let ProxyIds { uid, gid } = proxy_ids(annotations.as_object().unwrap());
        (uid, gid)
    }

    #[test]
    fn the_proxy_is_the_last_of_its_namespace() {
        assert_eq!(ids(&json!({ USERS: "1000650000/10000" })), (1_000_659_999, 1_000_659_999));
        assert_eq!(ids(&json!({ USERS: "5-9", GROUPS: "100/10,900/10" })), (9, 109));
        assert_eq!(ids(&json!({ GROUPS: "7-8" })), (1337, 8));
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        assert_eq!(ids(&json!({})), (1337, 1337));
        assert_eq!(ids(&json!({ USERS: "many", GROUPS: "1/0x" })), (1337, 1337));
        assert_eq!(ids(&json!({ USERS: "4294967295/2", GROUPS: "" })), (1337, 1337));
    }

    #[test]
    fn an_identity_that_the_app_has_as_well_is_the_platforms() {
        let proxy = |user: i64| json!({ "name": PROXY, "securityContext": { "runAsUser": user, "runAsGroup": user } });
        let app = json!({ "name": "app", "securityContext": { "runAsUser": 7 } });
        let mut pod = json!({ "spec": { "containers": [app, proxy(7)] } });
        forget_assigned(&mut pod);
        assert_eq!(pod["spec"]["containers"][1]["securityContext"], json!({}));
        let mut own = json!({ "spec": { "containers": [app, proxy(8)] } });
        forget_assigned(&mut own);
        assert_eq!(own["spec"]["containers"][1], proxy(8));
    }
}
