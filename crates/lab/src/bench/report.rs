//! Tables of numbers as text and as JSON.

use std::fmt;

use super::Environment;

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Column names.
    pub columns: Vec<String>,
    /// One cell per column.
    pub rows: Vec<Vec<String>>,
    /// What a reader must know to read it right.
    pub notes: Vec<String>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "one cell per column");
        self.rows.push(cells);
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// What a program measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub what: String,
    /// Rounds.
    pub rounds: u32,
    /// 1 is full size.
    pub divisor: u64,
    /// Where.
    pub environment: Environment,
    /// What came out.
    pub tables: Vec<Table>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.what)?;
        for (what, value) in &self.environment.facts {
            writeln!(f, "  {what:<12} {value}")?;
        }
        writeln!(f, "  {:<12} {}, median [lowest .. highest]", "rounds", self.rounds)?;
        if self.divisor != 1 {
            writeln!(f, "  NOT FULL SIZE: counts and durations are divided by {}", self.divisor)?;
        }
        for table in &self.tables {
            writeln!(f)?;
            write!(f, "{table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let rows = std::iter::once(&self.columns).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| rows.clone().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        for note in &self.notes {
            writeln!(f, "  * {note}")?;
        }
        Ok(())
    }
}

impl Report {
    /// The same as JSON: one object; tables keep the cells as they are printed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let facts = self.environment.facts.iter();
        let facts = facts.map(|(what, value)| format!("{}:{}", text(what), text(value)));
        let tables = self.tables.iter().map(|table| {
            let rows = table.rows.iter().map(|row| list(row));
            format!(
                "{{\"title\":{},\"columns\":{},\"rows\":[{}],\"notes\":{}}}",
                text(&table.title),
                list(&table.columns),
                rows.collect::<Vec<_>>().join(","),
                list(&table.notes)
            )
        });
        format!(
            "{{\"name\":{},\"what\":{},\"rounds\":{},\"divisor\":{},\"environment\":{{{}}},\
             \"tables\":[{}]}}",
            text(&self.name),
            text(&self.what),
            self.rounds,
            self.divisor,
            facts.collect::<Vec<_>>().join(","),
            tables.collect::<Vec<_>>().join(",")
        )
    }
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| text(item)).collect::<Vec<_>>().join(","))
}

/// A JSON string.
fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                out.extend(format!("\\u{:04x}", u32::from(control)).chars());
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_hold_every_cell() {
        let mut table = Table::new("a \"title\"", &["x", "longer"]);
        table.row(vec!["1".to_owned(), "two\n".to_owned()]);
        table.note("why");
        let environment = Environment { facts: vec![("cpu", "a\\b".to_owned())] };
        let report = Report {
            name: "n".to_owned(),
            what: "w".to_owned(),
            rounds: 5,
            divisor: 1,
            environment,
            tables: vec![table],
        };
        assert_eq!(
            report.to_json(),
            [
                r#"{"name":"n","what":"w","rounds":5,"divisor":1,"environment":{"cpu":"a\\b"},"#,
                r#""tables":[{"title":"a \"title\"","columns":["x","longer"],"#,
                r#""rows":[["1","two\u000a"]],"notes":["why"]}]}"#,
            ]
            .concat()
        );
        let shown = report.to_string();
        assert!(shown.contains("cpu") && shown.contains("* why") && !shown.contains("NOT FULL"));
    }
}
