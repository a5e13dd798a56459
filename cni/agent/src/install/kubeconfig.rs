// SPDX-License-Identifier: Apache-2.0
//! The plugin's credentials: where the API server is, whom to trust and the agent's own token, which kubelet swaps from time to time.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};

use super::KUBECONFIG;
use super::pass::{Touch, Written};
use crate::api::TokenExpiry;
use crate::files::{self, Doing, FileError};
use crate::settings::Settings;

#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The environment has no address of the API server.
    #[error(
        "{0} is not set: kubelet sets it for every pod, unless enableServiceLinks or the pod's env say otherwise"
    )]
    Unset(&'static str),
    /// Token or authorities that nobody could use.
    #[error("cannot use {}: {lack}", path.display())]
    Unusable { path: PathBuf, lack: &'static str },
    #[error(transparent)]
    File(#[from] FileError),
}

#[must_use]
pub fn path(settings: &Settings) -> PathBuf {
    settings.places.run_dir.join(KUBECONFIG)
}

/// Writes the file unless it is up to date; while somebody is fought over it, only if what it is to say, or its mode, has changed. `last` is what was written last, and its mode.
///
/// # Errors
/// The old file stays.
pub fn install(
    settings: &Settings,
    last: &mut Option<(String, u32)>,
    touch: &Touch,
) -> Result<Written, KubeconfigError> {
    let given = &settings.kubeconfig;
    let server = given.server.url().map_err(KubeconfigError::Unset)?;
    let token_file = settings.places.token_file();
    let token = text(&token_file)?;
    if token.trim().is_empty() {
        return Err(KubeconfigError::Unusable { path: token_file, lack: "no token is in it" });
    }
    let authority = if given.skip_verify { None } else { Some(read(&given.ca_file)?) };
    // Upstream hands on any other text as well, and nodes work with it where the plugin does not need it.
    if authority.as_deref().is_some_and(|pem| pem.trim_ascii().is_empty()) {
        let path = given.ca_file.clone();
        return Err(KubeconfigError::Unusable { path, lack: "it is empty" });
    }
    let content = render(&server, authority.as_deref(), &token);
    let path = path(settings);
    let right = fs::read(&path).is_ok_and(|is| is == content.as_bytes())
        && files::mode_of_own(&path) == Some(given.mode);
    if right {
        return Ok(Written::Not);
    }
    let wanted = (content, given.mode);
    let written = Written::after(last.as_ref() == Some(&wanted));
    written.may(&path, touch)?;
    files::atomic_write(&path, &mut wanted.0.as_bytes(), wanted.1)?;
    tracing::info!(target: "install", path = %path.display(), server, "wrote the plugin's credentials");
    *last = Some(wanted);
    Ok(written)
}

/// When the token expires that the plugin has, in seconds since 1970; `None` if it has none, or one that does not say.
#[must_use]
pub fn token_expires(settings: &Settings) -> Option<u64> {
    let config: Value = serde_json::from_slice(&fs::read(path(settings)).ok()?).ok()?;
    expiry(config["users"][0]["user"]["token"].as_str()?)
}

/// When a service account's token expires; `None` for one that does not say. Its signature is the API server's to check.
#[must_use]
pub fn expiry(token: &str) -> Option<u64> {
    match TokenExpiry::of(token)? {
        TokenExpiry::Until(end) => Some(end.as_secs()),
        TokenExpiry::Endless => None,
    }
}

/// JSON, which is YAML as well.
fn render(server: &str, authority: Option<&[u8]>, token: &str) -> String {
    let cluster = match authority {
        None => json!({ "server": server, "insecure-skip-tls-verify": true }),
        Some(pem) => {
            let data = base64::engine::general_purpose::STANDARD.encode(pem);
            json!({ "server": server, "certificate-authority-data": data })
        }
    };
    let context = "istio-cni-context";
    let config = json!({
        "kind": "Config",
        "apiVersion": "v1",
        "preferences": {},
        "clusters": [{ "name": "local", "cluster": cluster }],
        "users": [{ "name": "istio-cni", "user": { "token": token } }],
        "contexts": [{ "name": context, "context": { "cluster": "local", "user": "istio-cni" } }],
        "current-context": context,
    });
    format!("{config:#}\n")
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|cause| Doing::Read.failed(path, cause))
}

fn text(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|cause| Doing::Read.failed(path, cause))
}
