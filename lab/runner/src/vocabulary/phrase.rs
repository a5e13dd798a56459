// SPDX-License-Identifier: Apache-2.0
//! A step's regular expression as a person reads it.

use std::fmt::Write as _;

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{Alternation, Ast, ClassPerlKind, Repetition, RepetitionKind, RepetitionRange};

/// Renders a pattern: `…` is any text, `N` a number, `[x]` may be left out, `(x|y)` is one of them.
///
/// # Errors
/// It is no regular expression.
pub fn phrase(pattern: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    render(&Parser::new().parse(pattern)?, &mut text);
    Ok(text)
}

fn render(ast: &Ast, text: &mut String) {
    match ast {
        Ast::Literal(literal) => text.push(literal.c),
        Ast::Concat(concat) => concat.asts.iter().for_each(|part| render(part, text)),
        Ast::Group(group) => match &*group.ast {
            Ast::Alternation(choice) if !is_optional(choice) => {
                text.push('(');
                alternatives(choice, text);
                text.push(')');
            }
            inner => render(inner, text),
        },
        Ast::Alternation(choice) => alternatives(choice, text),
        Ast::Repetition(repetition) => repeat(repetition, text),
        Ast::ClassPerl(class) if class.kind == ClassPerlKind::Digit => text.push('N'),
        Ast::Dot(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) | Ast::ClassUnicode(_) => text.push('…'),
        Ast::Assertion(_) | Ast::Empty(_) | Ast::Flags(_) => {}
    }
}

fn alternatives(choice: &Alternation, text: &mut String) {
    if is_optional(choice) {
        text.push('[');
    }
    for (index, part) in choice.asts.iter().filter(|part| !matches!(part, Ast::Empty(_))).enumerate() {
        if index > 0 {
            text.push('|');
        }
        render(part, text);
    }
    if is_optional(choice) {
        text.push(']');
    }
}

/// True if one of the alternatives is empty.
fn is_optional(choice: &Alternation) -> bool {
    choice.asts.iter().any(|part| matches!(part, Ast::Empty(_)))
}

fn repeat(repetition: &Repetition, text: &mut String) {
    let optional = match repetition.op.kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::Range(RepetitionRange::Bounded(0, 1)) => true,
        RepetitionKind::ZeroOrMore => matches!(*repetition.ast, Ast::Group(_)),
        _ => false,
    };
    let mut inner = String::new();
    match &*repetition.ast {
        Ast::Group(group) if optional => render(&group.ast, &mut inner),
        other => render(other, &mut inner),
    }
    let _ = if optional { write!(text, "[{inner}]") } else { write!(text, "{inner}") };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_read_as_sentences() {
        for (pattern, want) in [
            ("the node agent is ready", "the node agent is ready"),
            (r"^(\d+) nodes$", "N nodes"),
            (r#"^its "([^"]+)" is (on|off)(?: within (\d+) ms)?$"#, r#"its "…" is (on|off)[ within N ms]"#),
            (r"^it says (.+)$", "it says …"),
            (r"^it is sent(?: over \w+)*( .*)$", "it is sent[ over …] …"),
            (r"^an? event(| again)s?$", "a[n] event[ again][s]"),
        ] {
            assert_eq!(phrase(pattern).unwrap(), want);
        }
        assert!(phrase("(").is_err());
    }
}
