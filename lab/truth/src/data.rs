// SPDX-License-Identifier: Apache-2.0
//! The configurations: `scenarios/truth/configurations/*.yaml`, the reference corpora, and random ones.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Context as _;
use redirect::Config;
use redirect::list::Selection;
use redirect::ruleset::{Id, Match, Owner, Ruleset};
use serde::Deserialize;

use crate::net;
use crate::settings::Settings;
use crate::unreachable::Unreachable;

/// A configuration with its name.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The configuration.
    pub config: Config,
}

/// All that the table is made of.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The configurations.
    pub cases: Vec<Case>,
    /// Kinds of rules that no packet meets in any of them.
    pub unreachable: Vec<Unreachable>,
}

impl Table {
    /// Kinds of rules that no packet meets in these configurations.
    #[must_use]
    pub fn unreachable_in(&self, cases: &[Case]) -> Vec<Unreachable> {
        let is_there = |name: &String| cases.iter().any(|case| case.name == *name);
        let entries = self.unreachable.iter();
        entries.filter(|entry| !entry.but_in.as_ref().is_some_and(is_there)).cloned().collect()
    }
}

/// A file of configurations by hand.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(default)]
    configurations: Vec<Written>,
    #[serde(default)]
    unreachable: Vec<Unreachable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    settings: Settings,
}

/// A case of a corpus; what rules it gives is for others to compare.
#[derive(Debug, Deserialize)]
struct Recorded {
    name: String,
    config: Settings,
}

/// All configurations below a workspace's `scenarios`.
pub fn read(scenarios: &Path) -> anyhow::Result<Table> {
    let Table { mut cases, mut unreachable } = Table::default();
    let mut files: Vec<_> = std::fs::read_dir(scenarios.join("truth/configurations"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let group: Group =
            serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
        unreachable.extend(group.unreachable);
        for written in group.configurations {
            cases.push(case(written.name, &written.settings)?);
        }
    }
    for corpus in ["rules/cases.json", "rules/random.json"] {
        let text = std::fs::read(scenarios.join(corpus)).context(corpus)?;
        for recorded in serde_json::from_slice::<Vec<Recorded>>(&text).context(corpus)? {
            cases.push(case(recorded.name, &recorded.config)?);
        }
    }
    Ok(Table { cases, unreachable })
}

fn case(name: String, settings: &Settings) -> anyhow::Result<Case> {
    let config = settings.config().with_context(|| name.clone())?;
    Ok(Case { name, config: adapted(config) })
}

/// The configuration with the lab's interfaces in the place of others, so that packets can meet the rules. Each other
/// interface becomes the guest's; an absent one keeps its name where the guest's is there already.
fn adapted(mut config: Config) -> Config {
    for names in [&mut config.virtual_interfaces, &mut config.exclude_interfaces] {
        let is_ours = |name: &Cow<'_, str>| [net::OUTSIDE, net::GUEST, "lo"].contains(&name.as_ref());
        if !names.iter().any(is_ours)
            && let Some(first) = names.first_mut()
        {
            *first = net::GUEST.into();
        }
    }
    config
}

/// Users and groups that rules name in a way that no kernel can hold.
#[must_use]
pub fn names(rules: &Ruleset) -> Vec<&str> {
    let name = |condition| match condition {
        &Match::Owner(_, Owner::Uid(Id::Name(ref name)) | Owner::Gid(Id::Name(ref name))) => {
            Some(name.as_str())
        }
        _ => None,
    };
    rules.rules.iter().flat_map(|rule| &rule.matches).filter_map(name).collect()
}

/// The configuration with a number for each name.
#[must_use]
pub fn numbered(config: &Config) -> Config {
    let mut config = config.clone();
    let number = |id: &mut Id| {
        if let Id::Name(name) = id {
            // FNV, into a range that nothing else here uses.
            let hash = name
                .bytes()
                .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
            *id = Id::Number(200_000 + hash % 100_000);
        }
    };
    config.proxy_uids.iter_mut().chain(&mut config.proxy_gids).for_each(number);
    config.owner_groups_exclude.iter_mut().for_each(number);
    if let Selection::List(groups) = &mut config.owner_groups_include {
        groups.iter_mut().for_each(number);
    }
    config
}
