// SPDX-License-Identifier: Apache-2.0
//! Names of scenarios, which survive edits of their files: `redirection/dns/questions-over-and-ipv6[tcp]+nft` is the feature's file, the
//! scenario's title, the row of examples and the back end of a copy. And the names that scenarios once had.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context as _, bail};
use cucumber::gherkin;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Most characters of a title in a name.
const TITLE: usize = 48;

/// Most characters of a cell. A text that is cut off may be that of another row, too.
const CELL: usize = 96;

/// Words of titles that names do without.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// Former names, relative to the workspace.
pub const ALIASES: &str = "features/aliases.yaml";

/// Ends of the names of a feature's scenarios, by the line of the scenario or of its row. The feature's outlines are not expanded yet.
pub fn of(feature: &gherkin::Feature) -> anyhow::Result<HashMap<usize, String>> {
    let mut names = HashMap::new();
    for scenario in &feature.scenarios {
        let title = title(&scenario.name);
        if scenario.examples.is_empty() {
            if title.is_empty() {
                bail!(
                    "line {}: a title has letters or digits: its scenario is named by them",
                    scenario.position.line
                );
            }
            names.insert(scenario.position.line, format!("/{title}"));
            continue;
        }
        let (lines, rows): (Vec<_>, Vec<_>) = rows(scenario).unzip();
        let title = if title.is_empty() { title } else { format!("/{title}") };
        names.extend(lines.into_iter().zip(keys(&rows)).map(|(line, key)| (line, format!("{title}[{key}]"))));
    }
    Ok(names)
}

/// Rows of an outline, each with the line that cucumber gives its scenario.
fn rows(outline: &gherkin::Scenario) -> impl Iterator<Item = (usize, Vec<String>)> {
    outline.examples.iter().flat_map(|examples| {
        let rows = examples.table.iter().flat_map(|table| table.rows.iter().skip(1));
        rows.enumerate()
            .map(|(at, row)| (examples.position.line + at + 2, row.iter().map(|cell| word(cell)).collect()))
    })
}

/// The key of each row: its first cells, as many as no other row begins with.
fn keys(rows: &[Vec<String>]) -> Vec<String> {
    let key = |(at, row): (usize, &Vec<String>)| {
        let is_unique = |count: &usize| {
            let begins_so = |other: &&Vec<String>| other.get(..*count) == row.get(..*count);
            rows.iter().filter(begins_so).count() == 1
        };
        match (1..=row.len()).find(is_unique) {
            Some(count) => row[..count].join(","),
            None => {
                let before = rows[..at].iter().filter(|other| *other == row).count();
                format!("{},{}", row.join(","), before + 1)
            }
        }
    };
    rows.iter().enumerate().map(key).collect()
}

/// The title without its placeholders.
fn title(title: &str) -> String {
    let mut text = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        // Cucumber takes a `<` without an end for itself.
        rest = after.split_once('>').map_or(after, |(_, after)| after);
    }
    text.push_str(rest);
    let words = words(&text, |character| character.is_ascii_alphanumeric());
    joined(words.iter().filter(|word| !ARTICLES.contains(&word.as_str())), TITLE)
}

/// A cell of a row. Versions and addresses keep their dots.
fn word(cell: &str) -> String {
    let words = words(cell, |character| character.is_ascii_alphanumeric() || character == '.');
    if words.is_empty() { "-".to_owned() } else { joined(words.iter(), CELL) }
}

fn words(text: &str, is_kept: impl Fn(char) -> bool) -> Vec<String> {
    let text = text.replace('\'', "").to_lowercase();
    let words = text.split(|character| !is_kept(character));
    words.filter(|word| word.chars().any(char::is_alphanumeric)).map(str::to_owned).collect()
}

/// As many words as fit, with hyphens between them.
fn joined<'a>(words: impl Iterator<Item = &'a String>, longest: usize) -> String {
    let mut slug = String::new();
    for word in words {
        if !slug.is_empty() && slug.len() + 1 + word.len() > longest {
            break;
        }
        let hyphen = if slug.is_empty() { "" } else { "-" };
        slug.push_str(hyphen);
        slug.push_str(word);
    }
    slug
}

/// True if a name is the wanted one, or begins with it and goes on with a scenario, a row or a back end.
#[must_use]
pub fn is_of(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[', '+']))
}

/// The feature of a scenario's name: folder and file.
#[must_use]
pub fn feature(name: &str) -> &str {
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    name.match_indices('/').nth(1).map_or(name, |(at, _)| &name[..at])
}

/// A name for a directory whose path must be short and plain: the socket of an agent is in there, and mounts are.
#[must_use]
pub fn directory(name: &str) -> String {
    let plain = name.replace(|character: char| !character.is_ascii_alphanumeric(), "-");
    let begin: String = plain.chars().take(32).collect();
    format!("{begin}-{}", HEXLOWER.encode(&Sha256::digest(name.as_bytes())[..4]))
}

/// A name as an argument that every shell leaves alone.
#[must_use]
pub fn quoted(name: &str) -> String {
    if name.contains('[') { format!("'{name}'") } else { name.to_owned() }
}

/// Former names, each with that of today: of scenarios, or of whole features.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aliases(BTreeMap<String, String>);

impl Aliases {
    /// Reads the workspace's list, if there is one.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let path = root.join(ALIASES);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let map: Option<BTreeMap<String, String>> =
            serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{ALIASES}: {error}"))?;
        Ok(Self(map.unwrap_or_default()))
    }

    /// The name of today; one that was never another stays.
    #[must_use]
    pub fn resolve(&self, name: &str) -> String {
        let former = self.0.iter().filter(|(former, _)| is_of(name, former));
        former
            .max_by_key(|(former, _)| former.len())
            .map_or_else(|| name.to_owned(), |(former, today)| format!("{today}{}", &name[former.len()..]))
    }

    /// Aliases that lead nowhere, or that would hide what is there.
    #[must_use]
    pub fn faults(&self, names: &[&str]) -> Vec<String> {
        let is_there = |wanted: &str| names.iter().any(|name| is_of(name, wanted));
        let fault = |(former, today): (&String, &String)| {
            if is_there(former) {
                Some(format!("{former}: is the name of something today"))
            } else if !is_there(today) {
                Some(format!("{former}: {today} names nothing"))
            } else {
                None
            }
        };
        self.0.iter().filter_map(fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::cli::Selection;
    use crate::locate::Workspace;

    /// Every name that there was when this was last written.
    const NAMES: &str = "features/names.txt";

    fn aliases(text: &str) -> Aliases {
        Aliases::parse(text).unwrap()
    }

    #[test]
    fn a_title_is_named_by_its_words_without_placeholders() {
        assert_eq!(title("A pod's <family> packets, with \"<tool>\""), "pods-packets-with");
        assert_eq!(title("<who>"), "");
        assert_eq!(title("Fewer than 3 < 4"), "fewer-than-3-4");
        let long = "one two three four five six seven eight nine ten eleven twelve";
        assert_eq!(title(long), "one-two-three-four-five-six-seven-eight-nine-ten");
    }

    #[test]
    fn a_row_is_named_by_as_few_first_cells_as_no_other_row_has() {
        let rows = [["a", "x", "1"], ["b", "x", "1"], ["b", "y", "1"], ["c", "", "1"], ["c", "*", "1"]];
        let rows: Vec<Vec<String>> = rows.map(|row| row.map(word).to_vec()).to_vec();
        assert_eq!(keys(&rows), ["a", "b,x", "b,y", "c,-,1,1", "c,-,1,2"]);
        assert_eq!(["10.0.0.0/8", "fd00::1", "IPv4 alone"].map(word), ["10.0.0.0-8", "fd00-1", "ipv4-alone"]);
    }

    #[test]
    fn a_part_of_a_name_means_all_that_it_begins() {
        for wanted in ["g/f", "g/f/s", "g/f/s[a]", "g/f/s[a]+nft"] {
            assert!(is_of("g/f/s[a]+nft", wanted), "{wanted}");
        }
        assert!(!is_of("g/f/s[a]", "g/f/s["));
        assert!(!is_of("g/f/same", "g/f/sam"));
        assert_eq!(["g/f/s[a/b]", "g/f[a]"].map(feature), ["g/f", "g/f"]);
    }

    #[test]
    fn a_former_name_leads_to_todays() {
        let aliases = aliases("g/old: g/new\ng/old/s: g/new/t\n");
        assert_eq!(aliases.resolve("g/old/x[a]"), "g/new/x[a]");
        assert_eq!(aliases.resolve("g/old/s[a]"), "g/new/t[a]");
        assert_eq!(aliases.resolve("g/other"), "g/other");
    }

    #[test]
    fn an_alias_that_leads_nowhere_or_hides_something_is_a_fault() {
        let names = ["g/new/t[a]", "g/f/s"];
        assert_eq!(aliases("g/old/s: g/new/t\n").faults(&names), Vec::<String>::new());
        assert_eq!(aliases("g/old: g/nowhere\n").faults(&names), ["g/old: g/nowhere names nothing"]);
        assert_eq!(aliases("g/f/s: g/new/t\n").faults(&names), ["g/f/s: is the name of something today"]);
    }

    /// `UPDATE=1` adds new names to the list. Names that are gone somebody takes out, or leaves an alias for.
    #[test]
    fn every_scenario_has_one_name_and_no_name_is_lost() {
        let root = Workspace::find().unwrap().root;
        let catalogue = Catalogue::read(&root, &Selection::default()).unwrap();
        let names: Vec<&str> = catalogue.entries.iter().map(|entry| entry.id.as_str()).collect();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        let twice = names.iter().filter(|name| names.iter().filter(|other| other == name).count() > 1);
        assert_eq!(
            twice.collect::<Vec<_>>(),
            Vec::<&&str>::new(),
            "two scenarios with one id: of a title it has the first {TITLE} characters, without articles and placeholders"
        );
        let aliases = Aliases::read(&root).unwrap();
        assert_eq!(aliases.faults(&names), Vec::<String>::new(), "{ALIASES}");

        let path = root.join(NAMES);
        let listed = fs::read_to_string(&path).unwrap_or_default();
        let lost: Vec<&str> =
            listed.lines().filter(|name| !unique.contains(aliases.resolve(name).as_str())).collect();
        assert_eq!(
            lost,
            Vec::<&str>::new(),
            "renamed: `OLD: NEW` in {ALIASES}; removed: its line out of {NAMES}"
        );
        // Copies for back ends follow from their original.
        let want: String =
            unique.iter().filter(|name| !name.contains('+')).map(|name| format!("{name}\n")).collect();
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &want).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == want, "{NAMES}: not current; UPDATE=1 cargo test -p cnilab names");
    }
}
