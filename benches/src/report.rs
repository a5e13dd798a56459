// SPDX-License-Identifier: Apache-2.0
//! Tables of figures: as text that can be pasted into a document, and as JSON for programs.

use std::fmt;

use serde_json::{Map, Value, json};

/// Number of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    Quick,
    Full,
}

impl Effort {
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A number; `None` where it was not measured.
    Number(f64),
    Text(String),
    Nothing,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Three digits that mean something are all that a measurement has.
            Self::Number(number) if *number < 10.0 => write!(out, "{number:.2}"),
            Self::Number(number) if *number < 100.0 => write!(out, "{number:.1}"),
            Self::Number(number) => write!(out, "{number:.0}"),
            Self::Text(text) => out.write_str(text),
            Self::Nothing => Ok(()),
        }
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Nothing, Self::Number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A table. The first column names the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
}

impl Table {
    #[must_use]
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new() }
    }

    pub fn row(&mut self, name: &str, cells: Vec<Cell>) {
        self.rows.push((name.to_owned(), cells));
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(name, cells)| {
            let cells = self.columns.iter().skip(1).zip(cells).filter_map(|(column, cell)| {
                let value = match cell {
                    Cell::Number(number) => json!(number),
                    Cell::Text(text) => json!(text),
                    Cell::Nothing => return None,
                };
                Some((column.clone(), value))
            });
            (name.clone(), Value::Object(cells.collect::<Map<_, _>>()))
        });
        Value::Object(rows.collect())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "#### {}\n", self.title)?;
        writeln!(out, "| {} |", self.columns.join(" | "))?;
        writeln!(out, "|{}", "---|".repeat(self.columns.len()))?;
        for (name, cells) in &self.rows {
            write!(out, "| {name} |")?;
            for column in 0..self.columns.len().saturating_sub(1) {
                write!(out, " {} |", cells.get(column).unwrap_or(&Cell::Nothing))?;
            }
            out.write_str("\n")?;
        }
        Ok(())
    }
}

/// All tables of a run, by title.
#[must_use]
pub fn json(tables: &[Table]) -> Value {
    Value::Object(tables.iter().map(|table| (table.title.clone(), table.json())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_text_and_json() {
        let mut table = Table::new("Apply", &["contender", "p50 us", "note"]);
        table.row("floor", vec![512.34.into(), Cell::Nothing]);
        table.row("legacy", vec!["not installed".into()]);
        let text = "#### Apply\n\n| contender | p50 us | note |\n|---|---|---|\n| floor | 512 |  |\n| legacy | not installed |  |\n";
        assert_eq!(table.to_string(), text);
        let expected = json!({"Apply": {"floor": {"p50 us": 512.34}, "legacy": {"p50 us": "not installed"}}});
        assert_eq!(json(&[table]), expected);
    }

    #[test]
    fn a_number_keeps_the_digits_that_mean_something() {
        assert_eq!(
            [1.234, 12.34, 1234.5].map(|number| Cell::from(number).to_string()),
            ["1.23", "12.3", "1234"]
        );
    }
}
