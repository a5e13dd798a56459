// SPDX-License-Identifier: Apache-2.0
//! Where the node's paths are in the lab. A real node has them where their names say.

use std::path::{Path, PathBuf};

/// Variable: a line `PATH=PLACE` for each directory, the first one that a path is below counts.
pub const PLACES: &str = "LAB_PLACES";

/// Place of a path that nobody can see.
const NOWHERE: &str = "/nonexistent";

/// What a process sees of a node.
#[derive(Debug, Clone, Default)]
pub struct Places(Vec<(PathBuf, PathBuf)>);

impl Places {
    /// Reads [`PLACES`]; without it paths are where their names say.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(at, place)| (at.into(), place.into())).collect())
    }

    /// The place of a path.
    #[must_use]
    pub fn find(&self, path: &Path) -> PathBuf {
        if self.0.is_empty() {
            return path.to_owned();
        }
        let path = path
            .strip_prefix("/var/run")
            .map_or_else(|_| path.to_owned(), |below| Path::new("/run").join(below));
        let found = self.0.iter().find_map(|(at, place)| Some((place, path.strip_prefix(at).ok()?)));
        match found {
            Some((place, below)) if below.as_os_str().is_empty() => place.clone(),
            Some((place, below)) => place.join(below),
            None => Path::new(NOWHERE).join(path.strip_prefix("/").unwrap_or(&path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_a_path_is_below_counts() {
        let places = Places::of("/etc/cni/net.d=/lab/net.d\n/run/netns=/lab/netns");
        let find = |path: &str| places.find(Path::new(path)).display().to_string();
        assert_eq!(find("/etc/cni/net.d/10-a.conflist"), "/lab/net.d/10-a.conflist");
        assert_eq!(find("/var/run/netns"), "/lab/netns");
        assert_eq!(find("/etc/cni/multus/net.d"), "/nonexistent/etc/cni/multus/net.d");
        assert_eq!(Places::of("").find(Path::new("/etc")), Path::new("/etc"));
    }
}
