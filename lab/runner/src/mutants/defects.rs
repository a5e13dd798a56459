// SPDX-License-Identifier: Apache-2.0
//! The catalogue of defects, `lab/mutants/<capability>.yaml`: each entry says what goes wrong and which text of production
//! becomes what. Whether that text is there is [`super::weave`]'s question.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

/// Directory of the catalogue in the workspace.
pub const DIRECTORY: &str = "lab/mutants";

/// The only room that defects are woven into.
const PRODUCTION: &str = "cni/";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// Name, in kebab-case: scenarios name it `@mutant:NAME`.
    pub name: String,
    /// `Then` step that must catch it, or a part of its text.
    pub step: Option<String>,
    /// Edits, in order.
    pub edits: Vec<Edit>,
    /// File that lists it, relative to the workspace.
    pub listed_in: String,
}

/// Replacement of production source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// File, relative to the workspace.
    pub file: String,
    /// Expression or whole statements, unique in the file.
    pub replace: String,
    /// Replacement, of the same type.
    pub with: String,
}

/// The entry of a file. One edit stands in the entry itself, several in a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    wrong: String,
    step: Option<String>,
    file: Option<String>,
    replace: Option<String>,
    with: Option<String>,
    #[serde(default)]
    edits: Vec<Edit>,
}

impl Entry {
    fn into_defect(self, listed_in: &str) -> Result<Defect, String> {
        let Self { name, wrong, step, file, replace, with, edits } = self;
        let is_kebab = name.split('-').all(|word| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        });
        if !is_kebab {
            return Err(format!("{name:?} is not a name in kebab-case"));
        }
        if wrong.trim().is_empty() {
            return Err(format!("{name}: `wrong` is empty"));
        }
        let edits = match (file, replace, with, edits) {
            (Some(file), Some(replace), Some(with), edits) if edits.is_empty() => {
                vec![Edit { file, replace, with }]
            }
            (None, None, None, edits) if !edits.is_empty() => edits,
            _ => return Err(format!("{name}: either `file`, `replace` and `with`, or a list of `edits`")),
        };
        if let Some(edit) = edits.iter().find(|edit| !edit.file.starts_with(PRODUCTION)) {
            return Err(format!("{name}: {} is not below {PRODUCTION}", edit.file));
        }
        Ok(Defect { name, step, edits, listed_in: listed_in.to_owned() })
    }
}

/// Reads every file of the catalogue, in order of their names.
pub fn read(root: &Path) -> anyhow::Result<Vec<Defect>> {
    let mut all = Vec::new();
    for path in files(root, "yaml")? {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        all.extend(parse(&path.strip_prefix(root)?.display().to_string(), &text)?);
    }
    unique(&all)?;
    Ok(all)
}

/// Files of the catalogue of one kind, sorted.
pub(super) fn files(root: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let directory = root.join(DIRECTORY);
    let entries =
        std::fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    let mut wanted: Vec<_> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == extension)).collect();
    wanted.sort();
    Ok(wanted)
}

/// Parses the defects of one file.
pub fn parse(listed_in: &str, text: &str) -> anyhow::Result<Vec<Defect>> {
    let entries: Option<Vec<Entry>> =
        serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{listed_in}: {error}"))?;
    let defects = entries.unwrap_or_default().into_iter().map(|entry| entry.into_defect(listed_in));
    defects.collect::<Result<_, _>>().map_err(|error| anyhow::anyhow!("{listed_in}: {error}"))
}

fn unique(defects: &[Defect]) -> anyhow::Result<()> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for Defect { name, listed_in, .. } in defects {
        if let Some(before) = seen.insert(name, listed_in) {
            anyhow::bail!("{listed_in}: {name} is listed in {before} already");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_edit_in_itself_or_several_in_a_list() {
        let text = "
- name: late
  wrong: it waits forever
  file: cni/agent/src/a.rs
  replace: |
    wait(one)
  with: wait(FOREVER)
- name: twice
  wrong: both ends lie
  step: the node is ready
  edits:
    - { file: cni/agent/src/a.rs, replace: a, with: b }
    - { file: cni/plugin/src/b.rs, replace: a, with: '' }
";
        let defects = parse("lab/mutants/x.yaml", text).unwrap();
        let edits: Vec<usize> = defects.iter().map(|defect| defect.edits.len()).collect();
        assert_eq!(edits, [1, 2]);
        assert_eq!(defects[0].edits[0].replace, "wait(one)\n");
        assert_eq!(defects[1].step.as_deref(), Some("the node is ready"));
    }

    #[test]
    fn a_malformed_entry_is_named_with_its_file() {
        let whole = "wrong: w, file: cni/a.rs, replace: a, with: b";
        for (entry, want) in [
            (format!("name: Loud, {whole}"), "kebab-case"),
            (format!("name: a--b, {whole}"), "kebab-case"),
            ("name: a, wrong: ' ', file: cni/a.rs, replace: a, with: b".to_owned(), "a: `wrong` is empty"),
            ("name: a, wrong: w, file: cni/a.rs, replace: a".to_owned(), "a: either"),
            ("name: a, wrong: w".to_owned(), "a: either"),
            (format!("name: a, {whole}, edits: [{{file: cni/a.rs, replace: a, with: b}}]"), "a: either"),
            (format!("name: a, {whole}, because: x"), "unknown field"),
            ("name: a, wrong: w, file: lab/a.rs, replace: a, with: b".to_owned(), "lab/a.rs is not below"),
        ] {
            let error = parse("lab/mutants/x.yaml", &format!("- {{ {entry} }}\n")).unwrap_err().to_string();
            assert!(error.starts_with("lab/mutants/x.yaml: ") && error.contains(want), "{entry}: {error}");
        }
    }

    #[test]
    fn a_name_is_listed_once() {
        let entry = "- { name: a, wrong: w, file: cni/a.rs, replace: a, with: b }\n";
        let both = [parse("x.yaml", entry).unwrap(), parse("y.yaml", entry).unwrap()].concat();
        assert_eq!(unique(&both).unwrap_err().to_string(), "y.yaml: a is listed in x.yaml already");
    }
}
