// SPDX-License-Identifier: Apache-2.0
//! The vocabulary as a page and as text.

use std::fmt::Write as _;

use super::{StepEntry, Topic};

const HEAD: &str = "# Steps

The vocabulary of the features: `cnilab steps` prints it, with an example of each; `cnilab steps WORD` what has a word in it. `…` is any text, `N` a number, `[x]` may be left out, `(x|y)` is one of them.
`it` is the pod or the call that the scenario named last. Generated from the steps' source: `UPDATE=1 cargo test -p cnilab vocabulary`.
";

/// The page `docs/steps.md`.
#[must_use]
pub fn markdown(topics: &[Topic]) -> String {
    let mut page = HEAD.to_owned();
    for topic in topics {
        let _ = write!(page, "\n## {}\n\n| step | description |\n|---|---|\n", topic.title);
        for step in &topic.steps {
            let phrase = format!("{} {}", step.keywords.join("/"), step.phrase).replace('|', "\\|");
            let _ = writeln!(page, "| `{phrase}` | {} |", step.description.replace('|', "\\|"));
        }
    }
    page
}

/// Steps with a word in them, as a terminal shows them.
#[must_use]
pub fn text(topics: &[Topic], word: &str) -> String {
    let mut text = String::new();
    for topic in topics {
        let has = |step: &&StepEntry| format!("{} {}", step.phrase, step.description).contains(word);
        let mut steps = topic.steps.iter().filter(has).peekable();
        if steps.peek().is_some() {
            let _ = writeln!(text, "{}", topic.title);
        }
        for step in steps {
            let _ = writeln!(text, "  {} {}", step.keywords.join("/"), step.phrase);
            if !step.description.is_empty() {
                let _ = writeln!(text, "      {}", step.description);
            }
            if let Some((example, place)) = &step.example {
                let _ = writeln!(text, "      {place}: {example}  ({} uses)", step.uses);
            }
        }
    }
    text
}
