// SPDX-License-Identifier: Apache-2.0
//! Named defects: which there are, which are to be played, and what became of them. A run of mutants plays each scenario
//! that names a defect twice: as it is, and with the defect. Only a scenario that passes without it and fails with it has
//! caught it.
//!
//! | module | what it is |
//! |---|---|
//! | [`defects`] | the catalogue of defects in `lab/mutants` |
//! | [`weave`], [`anchor`] | production's text with all of them in it |
//! | [`copy`] | that, as files for cargo to build |
//! | [`outcome`] | what the verdicts say of each defect |
//! | [`table`] | that, for a person |
//! | [`progress`] | a run of mutants while it runs |

pub mod anchor;
pub mod copy;
pub mod defects;
pub mod outcome;
pub mod progress;
pub mod table;
pub mod weave;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;

use crate::catalogue::{Catalogue, Entry};
use crate::cli::Selection;
use crate::locate::Workspace;
use crate::plan::Mutants;
use crate::portable::MILLRACE;
use crate::report::{self, Header, Report};
use crate::steps::wait::TRIAL;
use crate::suite::Digests;
use crate::tier;
use crate::verdict::{Record, Verdict};
use weave::Places;

/// Command line's word for every defect.
const ALL: &str = "all";

/// The defects that `name` means, among the selected scenarios. Whether names and plants match is told from all of
/// them. `None` if there is no such defect.
pub fn find(workspace: &Workspace, name: &str, selected: &Catalogue) -> anyhow::Result<Option<Mutants>> {
    let planted = weave::weave(&workspace.root)?.places;
    let named = names(&Catalogue::read(&workspace.root, &Selection::default())?);
    let mut found = sort_out(name, &planted, &named, &names(selected));
    if found == Mutants::default() {
        return Ok(None);
    }
    let defects = defects::read(&workspace.root)?;
    found.steps = defects.into_iter().filter_map(|defect| Some((defect.name, defect.step?))).collect();
    Ok(Some(found))
}

/// Scenarios that passed in earlier runs without a defect.
///
/// # Errors
/// A report cannot be read, or is not about Millrace of these sources, by this lab on its own nodes.
pub fn controls(paths: &[PathBuf], own: &Digests) -> anyhow::Result<Vec<Record>> {
    let mut all = Vec::new();
    for path in paths {
        let (Report { header, scenarios, .. }, _) = report::read(path)?;
        if let Some(why) = foreign(&header, own) {
            bail!("{}: {why}", path.display());
        }
        all.extend(scenarios.into_iter().filter(is_control));
    }
    Ok(all)
}

/// The field in which a report is about something else than Millrace of these sources, played by this lab on its own nodes. Sums of binaries say nothing: defects are planted in a build of their own.
fn foreign(header: &Header, own_digests: &Digests) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    if header.suite != own {
        return Some(format!("header.suite is {}, not {own}", header.suite));
    }
    if header.tier != tier::NETNS {
        return Some(format!("header.tier is {}, not {}", header.tier, tier::NETNS));
    }
    if !header.product.capabilities.iter().any(|one| one == MILLRACE) {
        return Some(format!("header.product.capabilities of {} lacks {MILLRACE}", header.product.name));
    }
    let field = own_digests.differs(&header.digests)?;
    Some(format!("header.digests.{field} is of another tree: play it again"))
}

/// True for what passed well within a quick trial's longest wait, which its control is held to as well.
fn is_control(record: &Record) -> bool {
    record.verdict == Verdict::Pass && record.seconds < TRIAL.as_secs_f64() / 2.0
}

fn sort_out(name: &str, planted: &Places, named: &BTreeSet<String>, selected: &BTreeSet<String>) -> Mutants {
    let meant = |one: &&String| name == ALL || name == one.as_str();
    let is_planted = |one: &&String| planted.contains_key(one.as_str());
    Mutants {
        played: selected.iter().filter(meant).filter(is_planted).cloned().collect(),
        unplanted: named.iter().filter(meant).filter(|one| !is_planted(one)).cloned().collect(),
        unnamed: planted.keys().filter(meant).filter(|one| !named.contains(*one)).cloned().collect(),
        ..Mutants::default()
    }
}
fn names(catalogue: &Catalogue) -> BTreeSet<String> {
    catalogue.entries.iter().flat_map(Entry::mutants).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::catalogue::Depth;

    #[test]
    fn a_control_is_a_report_on_millrace_by_the_same_lab() {
        let header = |suite: &str, tier: &str, capability: &str| {
            let mut header = crate::report::tests::header();
            (header.suite, header.tier) = (suite.to_owned(), tier.to_owned());
            header.product.capabilities = vec!["istio-cni".to_owned(), capability.to_owned()];
            header
        };
        let own = env!("CARGO_PKG_VERSION");
        let digests = crate::report::tests::header().digests;
        assert_eq!(foreign(&header(own, "netns", MILLRACE), &digests), None);
        for (other, field) in [
            (header("0.0.0-other", "netns", MILLRACE), "header.suite"),
            (header(own, "node", MILLRACE), "header.tier"),
            (header(own, "netns", "install-cni"), "header.product.capabilities"),
        ] {
            assert!(foreign(&other, &digests).is_some_and(|why| why.starts_with(field)));
        }
        let right = header(own, "netns", MILLRACE);
        let edited = || "edited".to_owned();
        for (other, field) in [
            (Digests { cni: edited(), ..digests.clone() }, Some("header.digests.cni ")),
            (Digests { cnilab: edited(), ..digests.clone() }, Some("header.digests.cnilab ")),
            (Digests { features: edited(), ..digests.clone() }, Some("header.digests.features ")),
            (Digests { scenarios: edited(), ..digests.clone() }, Some("header.digests.scenarios ")),
            (Digests { workload: edited(), ..digests }, None),
        ] {
            let why = foreign(&right, &other);
            assert_eq!(why.is_some(), field.is_some(), "{why:?}");
            assert!(why.is_none_or(|why| why.starts_with(field.unwrap_or_default())));
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(name: &str) -> Mutants {
        let planted = ["both", "elsewhere", "code"].map(|name| (name.to_owned(), Vec::new())).into();
        sort_out(name, &planted, &set(&["both", "elsewhere", "text"]), &set(&["both", "text"]))
    }

    #[test]
    fn names_without_a_plant_and_plants_without_a_name_are_told() {
        let all = found("all");
        assert_eq!(all.played, ["both"]);
        assert_eq!((all.unplanted, all.unnamed), (vec!["text".to_owned()], vec!["code".to_owned()]));
    }

    #[test]
    fn one_name_is_looked_at_alone() {
        assert_eq!(found("both"), Mutants { played: vec!["both".to_owned()], ..Mutants::default() });
        assert_eq!(found("nobody"), Mutants::default());
    }

    #[test]
    fn the_agents_socket_in_the_directory_of_each_world_has_a_path_that_a_socket_can_have() {
        let workspace = Workspace::find().unwrap();
        let everything = Catalogue::read(&workspace.root, &Selection::default()).unwrap();
        let all: Vec<String> = names(&everything).into_iter().collect();
        for entry in everything.with_mutants(&all, Depth::EveryScenario, &[]).entries {
            let path = tier::directory(Path::new(tier::ROOT), &entry.id).join("node-1/run/agent.sock");
            assert!(path.as_os_str().len() < 108, "{}", path.display());
        }
    }

    #[test]
    fn every_name_in_the_features_is_planted_and_every_plant_is_named() {
        let workspace = Workspace::find().unwrap();
        let everything = Catalogue::read(&workspace.root, &Selection::default()).unwrap();
        let all = find(&workspace, ALL, &everything).unwrap().unwrap();
        assert_eq!((all.unplanted, all.unnamed), (Vec::<String>::new(), Vec::<String>::new()));
        assert!(all.played.len() > 40, "{}", all.played.len());
    }
}
