// SPDX-License-Identifier: Apache-2.0
//! The configuration directory: files in order of name, the first one is the node's network. What one does that cannot be used is the
//! runtime's business.

use std::fs;
use std::path::{Path, PathBuf};

use cluster::conflist::{List, is_configuration};
use cluster::profile::Unusable;

/// No usable network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfError {
    /// No file of the directory is valid; with the reason for each that is not.
    #[error("no valid networks found in {}{}", directory.display(), reasons(rejected))]
    NoNetwork {
        directory: PathBuf,
        /// File name and reason.
        rejected: Vec<(String, String)>,
    },
}

fn reasons(rejected: &[(String, String)]) -> String {
    rejected.iter().map(|(file, why)| format!("; {file}: {why}")).collect()
}

/// A network, and the file that it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub file: PathBuf,
    pub list: List,
}

/// A runtime's search for its network.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    pub unusable: Unusable,
    /// Directory of plugins.
    pub binaries: &'a Path,
}

impl Search<'_> {
    /// The network of a directory.
    ///
    /// # Errors
    /// There is none.
    pub fn load(self, directory: &Path) -> Result<Found, ConfError> {
        let mut rejected = Vec::new();
        for file in files(directory) {
            match self.read(&file) {
                Ok(list) => return Ok(Found { file, list }),
                Err(why) => {
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    rejected.push((name, why));
                }
            }
            if self.unusable == Unusable::Fatal {
                break;
            }
        }
        Err(ConfError::NoNetwork { directory: directory.to_owned(), rejected })
    }

    /// The network of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(self, directory: &Path, name: &str) -> Result<Found, ConfError> {
        let of = |file: &PathBuf| self.read(file).ok().filter(|list| list.name == name);
        files(directory)
            .into_iter()
            .find_map(|file| Some(Found { list: of(&file)?, file }))
            .ok_or_else(|| ConfError::NoNetwork { directory: directory.to_owned(), rejected: Vec::new() })
    }

    /// Every network of a directory, the first of each name.
    #[must_use]
    pub fn all(self, directory: &Path) -> Vec<List> {
        let mut all: Vec<List> = Vec::new();
        for list in files(directory).iter().filter_map(|file| self.read(file).ok()) {
            if all.iter().all(|known| known.name != list.name) {
                all.push(list);
            }
        }
        all
    }

    /// A file's network, unless the runtime wants binaries that are not there.
    fn read(self, file: &Path) -> Result<List, String> {
        let text = fs::read(file).map_err(|error| error.to_string())?;
        let list = List::of_file(file, &text)?;
        match list.missing(|name| self.unusable != Unusable::Skipped || self.binaries.join(name).exists()) {
            Some(missing) => Err(format!("failed to find plugin {missing:?}")),
            None => Ok(list),
        }
    }
}

/// Configuration files of a directory, in order of name.
pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| is_configuration(path)).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    #[test]
    fn the_first_valid_file_in_order_of_name_wins() {
        let directory = directory(&[
            ("30-c.conflist", r#"{"name":"c","plugins":[{"type":"x"}]}"#),
            ("20-b.conf", r#"{"name":"b","type":"x","cniVersion":"0.3.1"}"#),
            ("10-a.conflist", r#"{"name":"a","plugins":[]}"#),
            ("08-dns.conflist", r#"{"name":"d","plugins":[{"type":"x","dns":{"nameservers":"10.0.0.10"}}]}"#),
            ("07-ipam.conf", r#"{"name":"i","type":"x","ipam":"host-local"}"#),
            ("05-torn.conflist", r#"{"name":"a","#),
            ("00-note.txt", r#"{"name":"no","type":"x"}"#),
        ]);
        let search = Search { unusable: Unusable::Skipped, binaries: directory.path() };
        fs::write(directory.path().join("x"), "").unwrap();
        let found = search.load(directory.path()).unwrap();
        assert!(found.file.ends_with("20-b.conf"));
        let list = found.list;
        assert_eq!((list.name.as_str(), list.version.as_str()), ("b", "0.3.1"));
        assert_eq!(List::from_text(&list.text).unwrap().plugins, list.plugins, "the cache can read it back");
    }

    #[test]
    fn a_directory_without_a_network_names_each_files_fault() {
        let directory =
            directory(&[("1.conf", r#"{"name":"b"}"#), ("2.conflist", r#"{"plugins":[{"type":"x"}]}"#)]);
        let search = Search { unusable: Unusable::Skipped, binaries: directory.path() };
        let text = search.load(directory.path()).unwrap_err().to_string();
        assert!(text.contains("1.conf: no 'type'") && text.contains("2.conflist: no name"), "{text}");
    }
}
