// SPDX-License-Identifier: Apache-2.0
//! The credentials that a container finds: token, authority and namespace of its pod's service account, exchanged as a
//! kubelet does it. Readers follow `..data`, a link that is replaced as a whole.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apiserver::{Account, ROOT_CA};
use cluster::PodName;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use tokio::task::JoinHandle;

use crate::api_access::ApiAccess;
use crate::error::Error;

/// Symbolic link to the current directory.
const CURRENT: &str = "..data";

const TOKEN: &str = "token";
const AUTHORITIES: &str = "ca.crt";

/// Credentials of one pod.
#[derive(Debug)]
pub struct Credentials {
    access: ApiAccess,
    account: Account,
    pod: PodName,
    directory: PathBuf,
    /// Lifetime of a token.
    life: Duration,
    written: AtomicU64,
}

impl Credentials {
    /// Those of a pod under `account`, in `directory`.
    ///
    /// # Errors
    /// There is no such account, or the files cannot be written.
    pub async fn new(
        access: &ApiAccess,
        account: &str,
        pod: &PodName,
        directory: PathBuf,
        life: Duration,
    ) -> Result<Self, Error> {
        // After a reboot there may be some of before.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let account = Account { namespace: pod.namespace.clone(), name: account.to_owned() };
        let own = Self {
            access: access.clone(),
            account,
            pod: pod.clone(),
            directory,
            life,
            written: AtomicU64::default(),
        };
        own.renew().await?;
        Ok(own)
    }

    /// Their directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The present token.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn token(&self) -> Result<String, Error> {
        self.read(TOKEN)
    }

    fn read(&self, file: &str) -> Result<String, Error> {
        let path = self.directory.join(file);
        fs::read_to_string(&path).map_err(Error::file("read", path))
    }

    /// Puts a new token in the place of the former one.
    ///
    /// # Errors
    /// The API gives none, or the files cannot be written.
    pub async fn renew(&self) -> Result<(), Error> {
        let token = token(&self.access.client, &self.account, Some(&self.pod.name), self.life).await;
        self.put(&token.map_err(|error| self.refused(&error))?, &self.authorities().await?)
    }

    /// Puts the authorities that are published now in the place of the former ones.
    ///
    /// # Errors
    /// None are published, or the files cannot be written.
    pub async fn follow_authorities(&self) -> Result<(), Error> {
        self.put(&self.token()?, &self.authorities().await?)
    }

    async fn authorities(&self) -> Result<String, Error> {
        let maps: Api<ConfigMap> = Api::namespaced(self.access.client.clone(), &self.pod.namespace);
        let map = maps.get(ROOT_CA).await?;
        let authorities = map.data.and_then(|mut data| data.remove(AUTHORITIES));
        authorities.ok_or_else(|| Error::Missing(format!("{AUTHORITIES} in ConfigMap {ROOT_CA}")))
    }

    fn refused(&self, error: &dyn std::error::Error) -> Error {
        Error::Missing(format!("token for pod {}: {error}", self.pod.name))
    }

    fn put(&self, token: &str, authorities: &str) -> Result<(), Error> {
        let files = [(TOKEN, token), (AUTHORITIES, authorities), ("namespace", &self.pod.namespace)];
        self.exchange(&files).map_err(Error::file("write", &self.directory))
    }

    /// Ends the life of the present token: what is there until it is renewed has expired, and says so.
    ///
    /// # Errors
    /// It cannot be read, or the API gives none: one that is not the lab's gives no token that has expired.
    pub fn expire(&self) -> Result<(), Error> {
        let api = self.access.own.as_ref().ok_or(Error::Foreign("give a pod a token that has expired"))?;
        api.revoke(&self.token()?);
        let token = api.expired_token(&self.account, Some(&self.pod.name));
        self.put(&token.map_err(|error| self.refused(&error))?, &self.read(AUTHORITIES)?)
    }

    fn exchange(&self, files: &[(&str, &str)]) -> std::io::Result<()> {
        let (now, next) = (self.directory.join(CURRENT), self.directory.join("..data_tmp"));
        let former = fs::read_link(&now).ok();
        let name = format!("..generation-{}", self.written.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(self.directory.join(&name))?;
        for (file, text) in files {
            fs::write(self.directory.join(&name).join(file), text)?;
        }
        symlink(&name, &next)?;
        fs::rename(&next, &now)?;
        match former {
            Some(former) => fs::remove_dir_all(self.directory.join(former)),
            None => files
                .iter()
                .try_for_each(|(file, _)| symlink(Path::new(CURRENT).join(file), self.directory.join(file))),
        }
    }

    /// Renews the token in time, for as long as this future is polled.
    pub async fn keep_fresh(&self) {
        // A kubelet renews at four fifths of a token's life.
        let mut due = tokio::time::interval(self.life.mul_f64(0.8).max(Duration::from_millis(1)));
        due.tick().await;
        loop {
            due.tick().await;
            // The pod is gone, or the account is: the next attempt may be luckier.
            let _ = self.renew().await;
        }
    }
}

/// A token of a service account, bound to a pod if one is named.
///
/// # Errors
/// The API gives none.
pub async fn token(
    client: &kube::Client,
    account: &Account,
    pod: Option<&str>,
    life: Duration,
) -> Result<String, Error> {
    let bound = |name: &str| BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(name.to_owned()),
        uid: None,
    };
    let spec = TokenRequestSpec {
        bound_object_ref: pod.map(bound),
        expiration_seconds: i64::try_from(life.as_secs()).ok(),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace);
    let answer = accounts.create_token_request(&account.name, &PostParams::default(), &request).await?;
    let token = answer.status.and_then(|status| status.token);
    token.ok_or_else(|| Error::Missing(format!("token of account {}", account.user())))
}

/// Credentials that a task keeps fresh.
#[derive(Debug)]
pub struct Kept {
    pub credentials: Arc<Credentials>,
    task: JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kept {
    /// Keeps credentials fresh for as long as this value lives.
    #[must_use]
    pub fn new(credentials: Credentials) -> Self {
        let credentials = Arc::new(credentials);
        let fresh = Arc::clone(&credentials);
        let task = tokio::spawn(async move { fresh.keep_fresh().await });
        Self { credentials, task }
    }
}
