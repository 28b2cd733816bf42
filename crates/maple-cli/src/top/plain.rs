//! A picture as plain text.

use super::draw::rate_text;
use super::picture::{Cell, Picture, PictureColumn, PictureTable};

/// The maximum number of rows of a table. Chosen: all tables together fit a few screens.
const MAX_ROWS: usize = 20;

/// Writes all rates and tables.
pub fn text(picture: &Picture) -> String {
    let mut text = format!("{}\n\n", picture.head);
    for rate in &picture.rates {
        text += &format!("{:<26}{:>14}{:>18}\n", rate.name, rate_text(rate.rate), format!("{} in all", rate.total));
    }
    for table in &picture.tables {
        text += &format!("\n{} ({})\n{}", table.title, table.rows.len(), table_text(table));
    }
    text
}

fn table_text(table: &PictureTable) -> String {
    if table.rows.is_empty() {
        return format!("  {}\n", table.none);
    }
    let head: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let rows: Vec<Vec<&str>> =
        table.rows.iter().take(MAX_ROWS).map(|row| row.iter().map(Cell::text).map(first_line).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let line = |row: &Vec<&str>| {
        let cell = |(number, (text, column)): (usize, (&&str, &PictureColumn))| {
            let width = width(number);
            if column.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let cells: Vec<String> = row.iter().zip(table.columns).enumerate().map(cell).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    let more = table.rows.len().saturating_sub(MAX_ROWS);
    let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    [&head].into_iter().chain(&rows).map(line).collect::<String>() + &more
}

/// Returns the first line of a text, such as an error with its traceback.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::picture::tests::reading;
    use super::*;

    #[test]
    fn everything_is_there_with_numbers_below_each_other() {
        let start = Instant::now();
        let (first, mut second) = (reading(start, 100), reading(start + Duration::from_secs(1), 150));
        second.errors = serde_json::Value::Null;
        let text = text(&Picture::new(&second, Some(&first)));
        assert!(text.starts_with("policy acl.py, 2 switches, 1 down, 40 rules\n\n"), "{text}");
        for part in [
            "packet-ins                         50 /s        150 in all\n",
            "\ntalkers (2)\n  from               to",
            "\ndrops (1)\n  packets  latest  line",
            "\nerrors (0)\n  nothing is wrong\n",
            "DOWN for 12 s",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }
}
