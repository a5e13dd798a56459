// SPDX-License-Identifier: Apache-2.0
//! Rights of a service account: what roles and bindings grant it, and which of that no request has needed. By the objects of the API and the
//! front's record, whichever API server it is. What every account of its namespace is granted is its own, what all accounts are is not.

use std::collections::BTreeMap;

use apiserver::rbac::{self, qualified};
use apiserver::{Account, Attributes, Grant, RoleId};
use cluster::{Asked, LabError};
use serde_json::Value;

use super::Tier;

/// Path of roles and bindings in the API.
const API: &str = "/apis/rbac.authorization.k8s.io/v1";

impl Tier {
    /// Rights of a user: `VERBS RESOURCE[ of group G][ named N][ in namespace N]`.
    ///
    /// # Errors
    /// The API server does not answer as it should.
    pub async fn rights(&self, user: &str) -> Result<Vec<String>, LabError> {
        let granted = self.granted(user).await?.into_iter();
        Ok(granted.map(|grant| Grant { role: None, ..grant }.to_string()).collect())
    }

    /// Rights that no request of the user has needed so far: one verb on one resource each, with the role in brackets.
    ///
    /// # Errors
    /// As above; nobody stands before the API server.
    pub async fn unused_rights(&self, user: &str) -> Result<Vec<String>, LabError> {
        let granted = self.granted(user).await?;
        let requests = self.front()?.requests();
        let needed: Vec<_> = requests.iter().filter(|one| one.user == user).filter_map(attributes).collect();
        Ok(rbac::unused(&granted, &needed).iter().map(Grant::to_string).collect())
    }

    /// Grants of a user, role by role.
    async fn granted(&self, user: &str) -> Result<Vec<Grant>, LabError> {
        let list = async |plural: &str| self.items(&format!("{API}/{plural}")).await;
        let mut bindings = list("clusterrolebindings").await?;
        bindings.extend(list("rolebindings").await?);
        let mut roles = list("clusterroles").await?;
        roles.extend(list("roles").await?);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = |role: &Value| RoleId {
            namespace: text(&role["metadata"]["namespace"]),
            name: text(&role["metadata"]["name"]).unwrap_or_default(),
        };
        let roles: BTreeMap<_, _> = roles.iter().map(|role| (id(role), role)).collect();
        let groups: Vec<_> = Account::of(user).iter().map(Account::group).collect();
        Ok(rbac::grants(user, &groups, &bindings, |id| roles.get(id).copied()))
    }
}

fn attributes(asked: &Asked) -> Option<Attributes> {
    let (group, resource) = qualified(asked.resource.as_deref()?);
    let Asked { verb, namespace, name, .. } = asked;
    Some(Attributes { verb: *verb, group, resource, namespace: namespace.clone(), name: name.clone() })
}
