// SPDX-License-Identifier: Apache-2.0
//! What a runtime keeps of the pods that it set up. It calls DEL with the configuration of that time, so as long as an entry names our plugin, the
//! binary has to stay: without it those pods could never be torn down.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;

use crate::conflist::OUR_TYPE;
use crate::files::{self, Doing, FileError};

/// libcni's file of one attachment, as far as we read it.
#[derive(Deserialize)]
struct Entry {
    /// The list, in base64.
    #[serde(default)]
    config: String,
}

/// How many of the runtime's entries name our plugin.
///
/// # Errors
/// The directory is there and cannot be read: nobody knows, so the binary has to stay.
pub fn uses(cache_dir: &Path) -> Result<usize, FileError> {
    let directory = cache_dir.join("results");
    let failed = |cause| Doing::List.failed(&directory, cause);
    let listed = match fs::read_dir(&directory) {
        Ok(listed) => listed,
        Err(cause) if files::is_absent(&cause) => return Ok(0),
        Err(cause) => return Err(failed(cause)),
    };
    let mut found = 0;
    for entry in listed {
        let path = entry.map_err(failed)?.path();
        match fs::read(&path) {
            Ok(content) => found += usize::from(names_us(&content)),
            // A pod ended meanwhile, or it is a directory.
            Err(cause) if files::is_absent(&cause) || path.is_dir() => {}
            Err(cause) => return Err(Doing::Read.failed(&path, cause)),
        }
    }
    Ok(found)
}

/// Whether an entry's configuration names our plugin. One that is of no known form counts if it has the name anywhere.
fn names_us(content: &[u8]) -> bool {
    let config = serde_json::from_slice::<Entry>(content)
        .ok()
        .and_then(|entry| base64::engine::general_purpose::STANDARD.decode(entry.config).ok())
        .filter(|config| !config.is_empty());
    let text = config.as_deref().unwrap_or(content);
    text.windows(OUR_TYPE.len()).any(|window| window == OUR_TYPE.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_by_their_configuration() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(uses(cache.path()).unwrap(), 0);
        let results = cache.path().join("results");
        fs::create_dir(&results).unwrap();
        let entry = |list: &str| {
            let config = base64::engine::general_purpose::STANDARD.encode(list);
            format!(
                r#"{{"kind":"cniCacheV1","containerId":"istio-cni-node-x","config":"{config}","ifName":"eth0"}}"#
            )
        };
        fs::write(results.join("a"), entry(r#"{"plugins":[{"type":"ptp"}]}"#)).unwrap();
        assert_eq!(uses(cache.path()).unwrap(), 0, "a pod's name is not a plugin's");
        fs::write(results.join("b"), entry(r#"{"plugins":[{"type":"ptp"},{"type":"istio-cni"}]}"#)).unwrap();
        fs::write(results.join("c"), r#"{"of":"another form","plugins":[{"type":"istio-cni"}]}"#).unwrap();
        assert_eq!(uses(cache.path()).unwrap(), 2);
    }
}
