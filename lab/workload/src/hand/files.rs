// SPDX-License-Identifier: Apache-2.0
//! Files of a node.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};

use cluster::hand::{Answer, Bytes, Digest, Entry, Kind, Network, Work, Writing};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use sha2::{Digest as _, Sha256};

use super::{Asker, place};

/// Carries out an order that concerns files alone.
pub(crate) fn carry_out(work: Work) -> io::Result<Answer> {
    match work {
        Work::Read { path } => return Ok(Answer::Content(Bytes(fs::read(path)?))),
        Work::Digest { path, text } => return Ok(Answer::Digest(digest(&fs::read(path)?, text.as_bytes()))),
        Work::List { path } => return Ok(Answer::Entries(list(&path)?)),
        Work::Look { path } => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            return Ok(Answer::Entries(vec![entry(name, &path)?]));
        }
        Work::Write { path, content, how } => write(&path, &content.0, how)?,
        Work::Remove { path } => remove(&path)?,
        Work::Rename { from, to } => fs::rename(from, to)?,
        Work::Link { path, target } => symlink(target, path)?,
        Work::SetMode { path, mode } => fs::set_permissions(path, Permissions::from_mode(mode))?,
        Work::SetImmutable { path, immutable } => set_immutable(&path, immutable)?,
        Work::Run(_)
        | Work::Signal { .. }
        | Work::MakeDirectory { .. }
        | Work::Watch { .. }
        | Work::Capture { .. }
        | Work::Send { .. }
        | Work::Keep { .. }
        | Work::Stray { .. }
        | Work::Inspect { .. }
        | Work::Compare { .. }
        | Work::Lock { .. }
        | Work::Ask { .. }
        | Work::Stop { .. } => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(Answer::Done)
}

/// Holds the shared lock of a file until it is told to stop.
pub(crate) async fn hold(path: PathBuf, asker: Asker, stopped: Option<PipeReader>) -> io::Result<Answer> {
    let work = move || {
        // The file of a network namespace can be opened, and not be made.
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenOptions::new().create(true).append(true).open(&path)?
            }
            opened => opened?,
        };
        file.lock_shared()?;
        asker.say(Ok(Answer::Following))?;
        if let Some(mut stopped) = stopped {
            // Nobody writes to it: it ends.
            stopped.read_to_end(&mut Vec::new())?;
        }
        Ok(Answer::Done)
    };
    place::inside(Network::Node, work).await?
}

fn digest(content: &[u8], text: &[u8]) -> Digest {
    let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    let has_text = !text.is_empty() && content.windows(text.len()).any(|window| window == text);
    Digest { sha256, has_text }
}

fn list(path: &Path) -> io::Result<Vec<Entry>> {
    let mut all = Vec::new();
    for found in fs::read_dir(path)? {
        let found = found?;
        match entry(&found.file_name(), &found.path()) {
            // Others remove files while we look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entry => all.push(entry?),
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

fn entry(name: &OsStr, path: &Path) -> io::Result<Entry> {
    let about = fs::symlink_metadata(path)?;
    Ok(Entry {
        name: name.to_string_lossy().into_owned(),
        kind: kind(&about),
        mode: about.mode() & 0o7777,
        owner: (about.uid(), about.gid()),
        size: about.size(),
        inode: (about.dev(), about.ino()),
        modified: (about.mtime(), about.mtime_nsec()),
        target: about.is_symlink().then(|| fs::read_link(path)).transpose()?,
    })
}

fn kind(about: &Metadata) -> Kind {
    match about.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Link,
        kind if kind.is_socket() => Kind::Socket,
        _ => Kind::Other,
    }
}

fn write(path: &Path, content: &[u8], how: Writing) -> io::Result<()> {
    let Writing::Whole { mode } = how else { return fs::write(path, content) };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let next = path.with_file_name(format!(".{name}.next"));
    let put = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&next)?;
        // Whatever the umask, and the mode of one that was left behind.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content)?;
        fs::rename(&next, path)
    };
    put().inspect_err(|_| {
        // The first error says more.
        let _ = fs::remove_file(&next);
    })
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn set_immutable(path: &Path, immutable: bool) -> io::Result<()> {
    let file = File::open(path)?;
    let mut flags = ioctl_getflags(&file)?;
    flags.set(IFlags::IMMUTABLE, immutable);
    Ok(ioctl_setflags(&file, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_digest_of_its_content_and_a_text_or_not() {
        let of = |text: &str| digest(b"abc", text.as_bytes());
        assert_eq!(of("bc").sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((of("bc").has_text, of("cb").has_text, of("").has_text), (true, false, false));
    }
}
