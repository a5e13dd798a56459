// SPDX-License-Identifier: Apache-2.0
//! A directory's files in the order in which runtimes look at them, and what they make of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::document::{Document, Invalid};

/// Content of the configuration directory, by name in byte order, which is the order of every runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectorySnapshot {
    /// Content of each file with an extension that runtimes read.
    pub files: BTreeMap<String, Content>,
    /// Mode of each, where known.
    pub modes: BTreeMap<String, u32>,
    /// Path of the directory on the node, where it is known.
    pub path: Option<PathBuf>,
    /// Content of Multus' `multus.d/daemon-config.json`, if there is one.
    pub multus_daemon: Option<String>,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    /// Unreadable for runtimes as well, and why.
    Unreadable(String),
    /// Something that this process cannot read, and why. Runtimes may: nobody here knows what they make of it.
    Denied(String),
}

/// Form of a configuration, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFormat {
    /// `.conflist`
    List,
    /// `.conf`, and `.json`, which containerd and CRI-O read as well: one plugin.
    Single,
}

impl ConfigFormat {
    /// Form of `name`; `None` for a name that runtimes ignore.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "conflist" => Some(Self::List),
            "conf" | "json" => Some(Self::Single),
            _ => None,
        }
    }
}

/// The name of the list that takes the place of a configuration of one plugin; that of a list is its own.
#[must_use]
pub fn list_name(name: &str) -> Option<String> {
    ConfigFormat::of(name)?;
    name.rsplit_once('.').map(|(stem, _)| format!("{stem}.conflist"))
}

/// The text of a file of that name, valid or not. One plugin's is read by its `type`, whatever `plugins` are beside it, as by libcni.
///
/// # Errors
/// It is neither a list nor one plugin.
pub fn parsed<'a>(name: &str, text: &'a str) -> Result<Document<'a>, Invalid> {
    match Document::parse(text)? {
        Document::List(list)
            if list.members.has_type() && ConfigFormat::of(name) == Some(ConfigFormat::Single) =>
        {
            Ok(Document::Single(list.members))
        }
        document => Ok(document),
    }
}

/// A text, if runtimes take it as a file of that name.
///
/// # Errors
/// They do not.
pub fn taken<'a>(name: &str, text: &'a str) -> Result<Document<'a>, Unusable> {
    let document = parsed(name, text)?;
    match (ConfigFormat::of(name), &document) {
        (Some(ConfigFormat::List), Document::List(list)) => list.check()?,
        (Some(ConfigFormat::List), Document::Single(_)) => return Err(Invalid::Plugins.into()),
        (Some(ConfigFormat::Single), Document::List(_)) => return Err(Invalid::Type.into()),
        (Some(ConfigFormat::Single), Document::Single(members)) => members.check()?,
        (None, _) => return Err(Unusable::Name),
    }
    Ok(document)
}

impl DirectorySnapshot {
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.files.get(name)? {
            Content::Text(text) => Some(text),
            Content::Unreadable(_) | Content::Denied(_) => None,
        }
    }

    /// True if no file has that name. One that cannot be read is there.
    #[must_use]
    pub fn is_gone(&self, name: &str) -> bool {
        !self.files.contains_key(name)
    }

    /// A file, if runtimes take it under its name.
    ///
    /// # Errors
    /// They do not.
    pub fn valid<'a>(&'a self, name: &str) -> Result<Document<'a>, Unusable> {
        let text = match self.files.get(name) {
            None => return Err(Unusable::Absent),
            Some(Content::Unreadable(why)) => return Err(Unusable::Unreadable(why.clone())),
            Some(Content::Denied(why)) => return Err(Unusable::Denied(why.clone())),
            Some(Content::Text(text)) => text,
        };
        taken(name, text)
    }

    /// Files that runtimes accept, the one that they use first.
    pub fn usable(&self) -> impl Iterator<Item = (&str, Document<'_>)> {
        self.files.keys().filter_map(|name| Some((name.as_str(), self.valid(name).ok()?)))
    }

    /// Files that this process cannot read and runtimes may, with the reason of each.
    pub fn denied(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(name, content)| match content {
            Content::Denied(why) => Some((name.as_str(), why.as_str())),
            Content::Text(_) | Content::Unreadable(_) => None,
        })
    }

    /// Types of all plugins that get the version of a configuration, ours included.
    #[must_use]
    pub fn types(&self) -> BTreeSet<String> {
        let called = self.usable().flat_map(|(_, document)| document.called());
        called.chain([super::OUR_TYPE.to_owned()]).collect()
    }
}

/// Reason for which a file is skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It does not exist.
    #[error("it is not there")]
    Absent,
    /// Its content cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// This process cannot read it; the error names the file.
    #[error("{0}")]
    Denied(String),
    /// Its extension is ignored by runtimes.
    #[error("its name ends neither in .conflist nor in .conf or .json")]
    Name,
    /// Its content is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}
