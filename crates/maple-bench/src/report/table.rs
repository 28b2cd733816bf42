//! Tables of text with aligned columns.

use std::fmt;

/// A table, with the first column aligned to the left, and numbers to the right.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table with these column heads.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> TextTable {
        TextTable { rows: vec![heads.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row. Cells that are missing at its end stay empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |column| self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let text = cell(row, column);
                line += &if column == 0 { format!("{text:<width$}") } else { format!("  {text:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_below_each_other() {
        let mut table = TextTable::new(["set", "rules", "levels"]);
        table.row(["acl1a", "1006", "9"]);
        table.row(["fw"]);
        assert_eq!(table.to_string(), "set    rules  levels\nacl1a   1006       9\nfw\n");
    }
}
