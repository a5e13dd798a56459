// SPDX-License-Identifier: Apache-2.0
//! Production's text with every defect of the catalogue woven in, each behind the question whether a process plays it. Pure but for
//! reading files; [`super::copy`] writes the result and `sut` builds it.
//!
//! `lab/mutants/<crate>.rs` has functions that entries call: it becomes the module `mutants` of that crate. That of `protocol`, which every
//! crate depends on, knows which defect a process plays.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use anyhow::Context as _;

use super::anchor;
use super::defects::{self, Defect, Edit};

/// Names of defects, each with the places that it changes: `cni/redirect/src/host.rs:47`.
pub type Places = BTreeMap<String, Vec<String>>;

/// Production with defects woven in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Woven {
    /// The files that differ from the workspace, by their path relative to it.
    pub files: BTreeMap<String, String>,
    pub places: Places,
}

/// Why an entry of the catalogue cannot be woven.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// The text is not in the file.
    #[error("{entry}: the text to replace is not in {file}{}", hint(.nearest.as_ref()))]
    Lost {
        /// `lab/mutants/leave.yaml: account-gone-keeps`
        entry: String,
        file: String,
        /// Most similar line.
        nearest: Option<(usize, String)>,
    },
    /// The text is in the file more than once.
    #[error("{entry}: the text to replace is not unique in {file}: lines {lines:?}")]
    Ambiguous {
        entry: String,
        file: String,
        /// Lines of the matches.
        lines: Vec<usize>,
    },
    /// The text begins in the middle of a chain of methods, where no `if` can stand.
    #[error(
        "{entry}: the text to replace follows a `.`, at {file}:{line}: begin with what the method is called on"
    )]
    Chained {
        entry: String,
        file: String,
        /// First line.
        line: usize,
    },
    /// A comma ends an element, a field or an arm: neither an expression nor a statement.
    #[error("{entry}: the text to replace ends with a comma, in {file}: leave it out")]
    Comma { entry: String, file: String },
    /// Two texts overlap, or one is within the other.
    #[error(
        "{entry} and {other} replace texts that overlap, at {file}:{line}: choose the same text for both, or disjoint ones"
    )]
    Overlap {
        entry: String,
        other: String,
        file: String,
        /// First line of the second.
        line: usize,
    },
    #[error("{entry}: {file}: {why}")]
    Unreadable { entry: String, file: String, why: String },
    /// An expression became nothing.
    #[error("{entry}: an expression in {file} becomes nothing: `with` must have its type")]
    Empty { entry: String, file: String },
}

fn hint(line: Option<&(usize, String)>) -> String {
    line.map_or_else(String::new, |(number, line)| format!("; nearest is line {number}: `{line}`"))
}

/// An edit whose text was found.
struct Found<'a> {
    defect: &'a Defect,
    edit: &'a Edit,
    range: Range<usize>,
}

/// Reads the catalogue and weaves all of it.
///
/// # Errors
/// Every entry that cannot be woven, one a line.
pub fn weave(root: &Path) -> anyhow::Result<Woven> {
    let defects = defects::read(root)?;
    let read = |file: &str| std::fs::read_to_string(root.join(file)).map_err(|error| error.to_string());
    let mut woven = texts(&defects, &read).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })?;
    add_modules(root, &mut woven)?;
    Ok(woven)
}

/// Adds the functions that entries call, each file as the module `mutants` of its crate.
fn add_modules(root: &Path, woven: &mut Woven) -> anyhow::Result<()> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    for path in defects::files(root, "rs")? {
        let room = path.file_stem().unwrap_or_default().to_string_lossy();
        let crate_root = format!("cni/{room}/src/lib.rs");
        let before = match woven.files.remove(&crate_root) {
            Some(text) => text,
            None => read(&root.join(&crate_root))?,
        };
        woven.files.insert(crate_root, before + "\npub mod mutants;\n");
        woven.files.insert(format!("cni/{room}/src/mutants.rs"), read(&path)?);
    }
    Ok(())
}

/// Weaves defects into files that `read` has.
fn texts(defects: &[Defect], read: &dyn Fn(&str) -> Result<String, String>) -> Result<Woven, Vec<Mistake>> {
    let mut edits: BTreeMap<&str, Vec<(&Defect, &Edit)>> = BTreeMap::new();
    for defect in defects {
        for edit in &defect.edits {
            edits.entry(&edit.file).or_default().push((defect, edit));
        }
    }
    let (mut woven, mut mistakes) = (Woven::default(), Vec::new());
    for (file, edits) in edits {
        let text = match read(file) {
            Ok(text) => text,
            Err(why) => {
                let unreadable = |(defect, _): &(&Defect, &Edit)| Mistake::Unreadable {
                    entry: entry(defect),
                    file: file.to_owned(),
                    why: why.clone(),
                };
                mistakes.extend(edits.iter().map(unreadable));
                continue;
            }
        };
        match locate(&text, &edits) {
            Err(found) => mistakes.extend(found),
            Ok(found) => {
                for Found { defect, range, .. } in &found {
                    let place = format!("{file}:{}", anchor::line(&text, range.start));
                    woven.places.entry(defect.name.clone()).or_default().push(place);
                }
                woven.files.insert(file.to_owned(), replaced(file, &text, &found));
            }
        }
    }
    if mistakes.is_empty() { Ok(woven) } else { Err(mistakes) }
}

fn entry(defect: &Defect) -> String {
    format!("{}: {}", defect.listed_in, defect.name)
}

/// Finds the edits of one file, in the file's order. Those of one range stay in the catalogue's.
fn locate<'a>(text: &str, edits: &[(&'a Defect, &'a Edit)]) -> Result<Vec<Found<'a>>, Vec<Mistake>> {
    let (mut all, mut mistakes) = (Vec::new(), Vec::new());
    for (defect, edit) in edits {
        match locate_one(text, defect, edit) {
            Ok(range) => all.push(Found { defect, edit, range }),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    all.sort_by_key(|found| (found.range.start, found.range.end));
    for pair in all.windows(2) {
        let [first, second] = pair else { continue };
        let differ = first.range != second.range;
        let is_same_defect = first.defect.name == second.defect.name;
        if (differ && second.range.start < first.range.end) || (!differ && is_same_defect) {
            mistakes.push(Mistake::Overlap {
                entry: entry(second.defect),
                other: entry(first.defect),
                file: second.edit.file.clone(),
                line: anchor::line(text, second.range.start),
            });
        }
    }
    if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
}

fn locate_one(text: &str, defect: &Defect, edit: &Edit) -> Result<Range<usize>, Mistake> {
    let (entry, file) = (entry(defect), edit.file.clone());
    if is_expression(&edit.replace) && edit.with.trim().is_empty() {
        return Err(Mistake::Empty { entry, file });
    }
    if edit.replace.trim_end().ends_with(',') {
        return Err(Mistake::Comma { entry, file });
    }
    match anchor::find(text, &edit.replace).as_slice() {
        [range] if is_chained(text, range.start) => {
            Err(Mistake::Chained { entry, file, line: anchor::line(text, range.start) })
        }
        [range] => Ok(range.clone()),
        [] => {
            let nearest = anchor::nearest(text, &edit.replace).map(|(at, line)| (at, line.to_owned()));
            Err(Mistake::Lost { entry, file, nearest })
        }
        several => {
            let lines = several.iter().map(|range| anchor::line(text, range.start)).collect();
            Err(Mistake::Ambiguous { entry, file, lines })
        }
    }
}

/// True if a method's or field's name is at `at`: rustfmt leaves nothing between it and its dot. After `..` stands an expression.
fn is_chained(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.ends_with('.') && !before.ends_with("..")
}

/// Text with all edits applied.
fn replaced(file: &str, text: &str, found: &[Found<'_>]) -> String {
    let (mut all, mut end) = (String::with_capacity(text.len() * 2), 0);
    for same in found.chunk_by(|one, next| one.range == next.range) {
        let Some(Found { range, .. }) = same.first() else { continue };
        all.push_str(&text[end..range.start]);
        all.push_str(&choice(file, &text[range.clone()], same));
        end = range.end;
    }
    all.push_str(&text[end..]);
    all
}

/// The original, unless the process plays one of the defects. A line of its own for each text: either may end in a comment.
fn choice(file: &str, original: &str, defects: &[Found<'_>]) -> String {
    let krate = if file.starts_with("cni/protocol/") { "crate" } else { "::protocol" };
    let mut text = String::new();
    for Found { defect, edit, .. } in defects {
        let _ = write!(
            text,
            "if {krate}::mutants::plays({:?}) {{\n{}\n}} else ",
            defect.name,
            edit.with.trim_end()
        );
    }
    let _ = write!(text, "{{\n{original}\n}}");
    // An operand needs its parentheses; a statement must not have them.
    if is_expression(original) { format!("({text})") } else { text }
}

/// True if a text is an operand. A text that ends like a statement or a block can stand where an `if` can.
fn is_expression(text: &str) -> bool {
    !text.trim_end().ends_with([';', '}'])
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::locate::Workspace;

    const FILE: &str = "cni/redirect/src/a.rs";
    const TEXT: &str = "fn a() -> u8 {\n    before();\n    if b() && c() { return 1; }\n    d(c())\n}\n";

    fn defect(name: &str, replace: &str, with: &str) -> Defect {
        let edit = Edit { file: FILE.to_owned(), replace: replace.to_owned(), with: with.to_owned() };
        Defect { name: name.to_owned(), step: None, edits: vec![edit], listed_in: "x.yaml".to_owned() }
    }

    fn woven(defects: &[Defect]) -> Result<Woven, Vec<String>> {
        let read =
            |file: &str| if file == FILE { Ok(TEXT.to_owned()) } else { Err("no such file".to_owned()) };
        texts(defects, &read).map_err(|all| all.iter().map(ToString::to_string).collect())
    }

    fn flat(woven: &Woven, file: &str) -> String {
        woven.files[file].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_expression_gets_parentheses_and_a_statement_none() {
        let woven = woven(&[defect("x", "b()", "true"), defect("y", "before();", "")]).unwrap();
        let want = "fn a() -> u8 { if ::protocol::mutants::plays(\"y\") { } else { before(); } \
                    if (if ::protocol::mutants::plays(\"x\") { true } else { b() }) && c() { return 1; } d(c()) }";
        assert_eq!(flat(&woven, FILE), want);
        assert_eq!(woven.places["x"], ["cni/redirect/src/a.rs:3"]);
    }

    #[test]
    fn defects_of_one_text_are_alternatives() {
        let woven = woven(&[defect("x", "d(c())", "1"), defect("y", "d(c())", "2")]).unwrap();
        let want = "(if ::protocol::mutants::plays(\"x\") { 1 } else if ::protocol::mutants::plays(\"y\") { 2 } \
                    else { d(c()) })";
        assert!(flat(&woven, FILE).contains(want), "{}", flat(&woven, FILE));
    }

    #[test]
    fn the_crate_that_knows_names_asks_itself() {
        let mut one = defect("x", "b()", "true");
        one.edits[0].file = "cni/protocol/src/a.rs".to_owned();
        let woven = texts(&[one], &|_| Ok(TEXT.to_owned())).unwrap();
        assert!(flat(&woven, "cni/protocol/src/a.rs").contains("if crate::mutants::plays(\"x\")"));
    }

    #[test]
    fn every_entry_that_cannot_be_woven_is_named_with_its_file() {
        let elsewhere = Edit { file: "cni/gone.rs".to_owned(), replace: "a".to_owned(), with: String::new() };
        let mut gone = defect("gone", "", "");
        gone.edits = vec![elsewhere];
        let mistakes = woven(&[
            defect("lost", "if b() && e() { return 2; }", ""),
            defect("twice", "c()", "true"),
            defect("empty", "d(c())", " "),
            defect("comma", "d(c()),\n", "1"),
            gone,
        ]);
        assert_eq!(
            mistakes.unwrap_err(),
            [
                "x.yaml: gone: cni/gone.rs: no such file",
                "x.yaml: lost: the text to replace is not in cni/redirect/src/a.rs; nearest is line 3: \
                 `if b() && c() { return 1; }`",
                "x.yaml: twice: the text to replace is not unique in cni/redirect/src/a.rs: lines [3, 4]",
                "x.yaml: empty: an expression in cni/redirect/src/a.rs becomes nothing: `with` must have its type",
                "x.yaml: comma: the text to replace ends with a comma, in cni/redirect/src/a.rs: leave it out",
            ]
        );
    }

    #[test]
    fn a_text_begins_with_what_its_method_is_called_on() {
        let text = "fn a() -> A {\n    A { b: c()\n        .d(), ..e() }\n}\n";
        let told = |replace| {
            let woven = texts(&[defect("x", replace, "f()")], &|_| Ok(text.to_owned()));
            woven.err().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let why = "x.yaml: x: the text to replace follows a `.`, at cni/redirect/src/a.rs:3: begin with what the method is called on";
        assert_eq!(told("d()"), Some(vec![why.to_owned()]));
        assert_eq!([told("c().d()"), told("e()")], [None, None]);
    }

    #[test]
    fn texts_that_overlap_are_told_with_both_entries() {
        let overlap = "x.yaml: y and x.yaml: x replace texts that overlap, at cni/redirect/src/a.rs:3: choose the same \
                       text for both, or disjoint ones";
        for second in ["b()", "&& c() { return 1; } d"] {
            let mistakes =
                woven(&[defect("x", "if b() && c() { return 1; }", ""), defect("y", second, "true")]);
            assert_eq!(mistakes.unwrap_err(), [overlap], "{second}");
        }
        let mut own = defect("x", "b()", "true");
        own.edits.push(own.edits[0].clone());
        assert!(woven(&[own]).is_err());
    }

    /// For changes of production: `cargo test -p cnilab weave`.
    #[test]
    fn the_whole_catalogue_can_be_woven() {
        let began = Instant::now();
        let woven = weave(&Workspace::find().unwrap().root).unwrap_or_else(|error| panic!("{error}"));
        println!("{} defects in {} files, {:?}", woven.places.len(), woven.files.len(), began.elapsed());
    }
}
