// SPDX-License-Identifier: Apache-2.0
//! The page of a sweep: what was measured of each product, side by side, and what becomes of the sentences of others.

use std::fmt::Write as _;

use super::outcome::{Cell, Measured, exposure, inbound, ready};
use super::{Claim, Policy, Situation, Sweep};

/// The page, in Markdown. `head` is what a person wrote.
#[must_use]
pub fn page(head: &str, sweep: &Sweep, products: &[Measured]) -> String {
    let mut page = head.trim_end().to_owned() + "\n\n";
    for measured in products {
        let Measured { product, version, kernel, jobs, .. } = measured;
        let _ = writeln!(page, "* **{product}** {version}: kernel {kernel}, {jobs} cells at a time");
    }
    policies(&mut page, sweep);
    for situation in &sweep.situations {
        let _ = write!(page, "\n## {}\n\n{}\n\n", capital(&situation.name), situation.about);
        table(&mut page, sweep, situation, products);
    }
    claims(&mut page, sweep, products);
    page
}

fn policies(page: &mut String, sweep: &Sweep) {
    page.push_str("\n| policy | what it is |\n|---|---|\n");
    for Policy { name, about, millrace, .. } in &sweep.policies {
        let whose = if *millrace { " (Millrace alone)" } else { "" };
        let _ = writeln!(page, "| {name} | {about}{whose} |");
    }
}

fn table(page: &mut String, sweep: &Sweep, situation: &Situation, products: &[Measured]) {
    let several = products.len() > 1;
    let of = |product: &Measured| if several { format!("{}: ", product.product) } else { String::new() };
    page.push_str("| policy | late |");
    for product in products {
        let of = of(product);
        let _ = write!(
            page,
            " {of}exposure | {of}inbound | {of}ready after | {of}restarts | {of}what the owner sees |"
        );
    }
    page.push_str("\n|---|---|");
    page.push_str(&"---|---|---|---|---|".repeat(products.len()));
    page.push('\n');
    for policy in &sweep.policies {
        for late in &situation.late {
            let _ = write!(page, "| {} | {late} s |", policy.name);
            for product in products {
                page.push_str(&cell(product.cell(&situation.name, &policy.name, *late)));
            }
            page.push('\n');
        }
    }
}

fn cell(cell: Option<&Cell>) -> String {
    match cell.map(|cell| (&cell.outcome, &cell.why)) {
        Some((Some(outcome), _)) => format!(
            " {} | {} | {} | {} | {} |",
            exposure(outcome),
            inbound(outcome),
            ready(outcome),
            outcome.restarts,
            outcome.sees.join(", ").replace('|', "\\|")
        ),
        Some((None, why)) => {
            let why = why.as_deref().unwrap_or_default().replace('|', "\\|");
            format!(" – | – | – | – | {why} |")
        }
        None => " not measured | | | | |".to_owned(),
    }
}

fn claims(page: &mut String, sweep: &Sweep, products: &[Measured]) {
    page.push_str("\n## What is said about the race\n\nSentences of documents, and whether it was seen in every cell of that policy and situation in which the agent was late.\n\n");
    page.push_str("| sentence | policy, situation |");
    for product in products {
        let _ = write!(page, " {} |", product.product);
    }
    let _ = write!(page, "\n|---|---|{}\n", "---|".repeat(products.len()));
    for claim in &sweep.claims {
        let _ = write!(page, "| {} | {}, {} |", claim.says, claim.policy, claim.situation);
        for product in products {
            let _ = write!(page, " {} |", holds(claim, product));
        }
        page.push('\n');
    }
}

/// Word on a claim.
pub(super) fn holds(claim: &Claim, measured: &Measured) -> &'static str {
    let its = measured
        .cells
        .iter()
        .filter(|cell| (&cell.policy, &cell.situation) == (&claim.policy, &claim.situation) && cell.late > 0);
    let outcomes: Vec<_> = its.map(|cell| cell.outcome.as_ref()).collect();
    if outcomes.is_empty() || outcomes.iter().any(Option::is_none) {
        return "not measured";
    }
    let seen = outcomes.into_iter().flatten().all(|one| claim.sees.iter().all(|sight| one.shows(*sight)));
    if seen { "yes" } else { "no" }
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}
