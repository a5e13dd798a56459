// SPDX-License-Identifier: Apache-2.0
//! One file to carry: this program with features, scenarios and the pods' binary behind it, made by `cnilab pack`. Such a program needs no
//! workspace and no compiler; the product under test is somebody's directory.
//!
//! They are behind the program's own bytes and not compiled into it: a feature that changes would compile the whole lab again, and the pods'
//! binary is another package's. `strip` takes them off.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;

use crate::elf::{Linkage, linkage};
use crate::exit::Usage;
use crate::plan::{Place, Task};

/// The file that is executed: this very program, even if its path has been overwritten since.
pub const SELF: &str = "/proc/self/exe";

/// Path of the pods' binary among the files.
pub(crate) const WORKLOAD: &str = "workload";

/// The last bytes of a program that carries something.
const MAGIC: &[u8; 16] = b"cnilab carries 1";

/// After the files: their length as 8 bytes, and [`MAGIC`].
const TRAILER: usize = 8 + MAGIC.len();

/// Files by their path in the workspace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, content) in &self.0 {
            for part in [path.as_bytes(), content] {
                bytes.extend((part.len() as u64).to_le_bytes());
                bytes.extend(part);
            }
        }
        bytes
    }

    fn decode(mut bytes: &[u8]) -> anyhow::Result<Self> {
        let mut part = || -> anyhow::Result<Option<Vec<u8>>> {
            let Some((length, rest)) = bytes.split_first_chunk() else {
                ensure!(bytes.is_empty(), "what this program carries is cut off");
                return Ok(None);
            };
            let length = usize::try_from(u64::from_le_bytes(*length))?;
            let (part, rest) =
                rest.split_at_checked(length).context("what this program carries is cut off")?;
            bytes = rest;
            Ok(Some(part.to_vec()))
        };
        let mut files = BTreeMap::new();
        while let Some(path) = part()? {
            let content = part()?.context("what this program carries is cut off")?;
            files.insert(String::from_utf8(path)?, content);
        }
        Ok(Self(files))
    }

    fn write(&self, into: &Path) -> anyhow::Result<()> {
        for (path, content) in &self.0 {
            let to = into.join(path);
            let mode = if path == WORKLOAD { 0o755 } else { 0o644 };
            to.parent()
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(&to, content))
                .and_then(|()| fs::set_permissions(&to, fs::Permissions::from_mode(mode)))
                .with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(())
    }
}

/// Length of the files behind a program; `None` if there are none.
fn length(program: &mut File) -> anyhow::Result<Option<u64>> {
    let size = program.metadata()?.len();
    let Some(begin) = size.checked_sub(TRAILER as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER];
    program.seek(SeekFrom::Start(begin))?;
    program.read_exact(&mut trailer)?;
    let (length, magic) = trailer.split_at(8);
    Ok(if magic == MAGIC { Some(u64::from_le_bytes(length.try_into()?)) } else { None })
}

/// The bytes of a program without what it carries, and that.
fn split(path: &Path) -> anyhow::Result<(Vec<u8>, Option<Files>)> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let length = length(&mut file)?;
    file.rewind()?;
    let mut program = Vec::new();
    file.read_to_end(&mut program)?;
    let Some(length) = length else { return Ok((program, None)) };
    let end = program.len() - TRAILER;
    let begin = end.checked_sub(usize::try_from(length)?).context("what this program carries is cut off")?;
    let files = Files::decode(&program[begin..end])?;
    program.truncate(begin);
    Ok((program, Some(files)))
}

/// True if this program carries what it needs.
#[must_use]
pub fn is_carrying() -> bool {
    File::open(SELF).is_ok_and(|mut program| length(&mut program).is_ok_and(|length| length.is_some()))
}

/// This program, for a person to type.
#[must_use]
pub fn command() -> &'static str {
    if is_carrying() { "cnilab" } else { "cargo lab" }
}

/// Said of what a program that was packed cannot do without `--sut`.
pub(crate) fn needs_product(what: &str) -> Usage {
    Usage(format!(
        "{what}: this program carries features and no product; give it one with --sut DIR, or use `cargo lab` in a workspace"
    ))
}

/// Said of what a program that was packed cannot do at all.
pub(crate) const NO_SOURCE: &str = "this program carries no source tree; use `cargo lab` in a workspace";

/// That, of a command.
pub(crate) fn needs_source(what: &str) -> Usage {
    Usage(format!("{what}: {NO_SOURCE}"))
}

/// Writes what this program carries to a directory that goes with the returned guard. `None` if it carries nothing.
pub fn unpack(below: &Path) -> anyhow::Result<Option<TempDir>> {
    if !is_carrying() {
        return Ok(None);
    }
    let (_, files) = split(Path::new(SELF))?;
    let directory = tempfile::Builder::new().prefix("cnilab-suite-").tempdir_in(below);
    let directory = directory.with_context(|| format!("cannot make a directory in {}", below.display()))?;
    files.unwrap_or_default().write(directory.path())?;
    Ok(Some(directory))
}

/// The same for a task in a sandbox, whose `/run` goes with it: a suite and the binary of pods. Real nodes have another `/run`.
pub fn unpack_in(place: &Place, task: &Task) -> anyhow::Result<Option<(TempDir, PathBuf)>> {
    let is_seen = place.is_sandbox() && !task.is_of_real_components();
    let below = if is_seen { PathBuf::from("/run") } else { std::env::temp_dir() };
    Ok(unpack(&below)?.map(|directory| {
        let workload = directory.path().join(WORKLOAD);
        (directory, workload)
    }))
}

/// Writes a copy of this program that carries these files, by their paths.
pub(crate) fn bind(files: BTreeMap<String, Vec<u8>>, to: &Path) -> anyhow::Result<()> {
    let (mut bytes, carried) = split(Path::new(SELF))?;
    if carried.is_some() {
        bail!("this program is packed already: copy it");
    }
    ensure!(linkage(&bytes)? == Linkage::Static, "this program is not static: it would not run elsewhere");
    let files = Files(files).encode();
    bytes.extend(&files);
    bytes.extend((files.len() as u64).to_le_bytes());
    bytes.extend(MAGIC);
    // Whoever runs the former one keeps it.
    let mut fresh = tempfile::NamedTempFile::new_in(
        to.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")),
    )?;
    fresh.write_all(&bytes)?;
    fresh.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    fresh.persist(to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
        Files(
            [file("features/g/a.feature", "Feature: a"), file("features/empty", ""), file(WORKLOAD, "x")]
                .into(),
        )
    }

    #[test]
    fn what_is_packed_is_unpacked_and_the_pods_binary_runs() {
        assert_eq!(Files::decode(&files().encode()).unwrap(), files());
        let dir = tempfile::tempdir().unwrap();
        files().write(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("features/g/a.feature")).unwrap(), "Feature: a");
        assert_eq!(fs::metadata(dir.path().join(WORKLOAD)).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_file_that_was_cut_off_is_refused() {
        let bytes = files().encode();
        for cut in 1..bytes.len() {
            let found = Files::decode(&bytes[..cut]);
            assert!(found.is_err() || found.unwrap() != files(), "{cut}");
        }
    }

    #[test]
    fn a_program_that_carries_nothing_is_left_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, "short").unwrap();
        assert_eq!(split(&path).unwrap(), (b"short".to_vec(), None));
        let mut packed = b"program".to_vec();
        packed.extend(files().encode());
        packed.extend((files().encode().len() as u64).to_le_bytes());
        packed.extend(MAGIC);
        fs::write(&path, packed).unwrap();
        assert_eq!(split(&path).unwrap(), (b"program".to_vec(), Some(files())));
    }
}
