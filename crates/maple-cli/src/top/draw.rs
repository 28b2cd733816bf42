//! Draws a picture into a terminal.

use maple_controller::timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, TableState};

use super::Top;
use super::picture::{Cell, PictureColumn, PictureTable, Rate};
use crate::show::scaled;

/// The width of names and of numbers of rates, in characters. Chosen: the longest name and a number of twelve digits
/// fit, and with a trend beside them a terminal of 80 columns.
const RATE_WIDTHS: [u16; 3] = [26, 14, 18];

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, top: &mut Top) {
    let rates = top.picture.rates.len() as u16;
    let heights = [
        Constraint::Length(1),
        Constraint::Length(1 + rates),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [head, of_rates, tabs, table, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(head_line(top), head);
    draw_rates(frame, top, of_rates);
    frame.render_widget(tab_line(top), tabs);
    draw_table(frame, top, table);
    frame.render_widget(foot_line(top), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Says what the controller does, or that it is gone.
fn head_line(top: &Top) -> Paragraph<'_> {
    match &top.lost {
        None => Paragraph::new(Line::styled(format!("maple top: {}", top.picture.head), bold())),
        Some((since, why)) => {
            let text = format!("NO ANSWER since {} (what follows is older; trying again): {why}", timestamp(*since));
            Paragraph::new(Line::styled(text, reversed()))
        }
    }
}

fn draw_rates(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let [name, rate, total] = RATE_WIDTHS;
    for (number, Rate { name: what, rate: now, total: all }) in top.picture.rates.iter().enumerate() {
        if number as u16 >= area.height.saturating_sub(1) {
            return;
        }
        let row = Rect { y: area.y + number as u16, height: 1, ..area };
        let columns = [name, rate, total].map(Constraint::Length);
        let [a, b, c, trend] = Layout::horizontal([columns[0], columns[1], columns[2], Constraint::Min(0)]).areas(row);
        frame.render_widget(Paragraph::new(*what), a);
        frame.render_widget(Paragraph::new(rate_text(*now)).right_aligned(), b);
        frame.render_widget(Paragraph::new(format!("{all} in all")).right_aligned(), c);
        let line = Rect { x: trend.x.saturating_add(2), width: trend.width.saturating_sub(2), ..trend };
        let newest = top.trends.newest(number, usize::from(line.width));
        frame.render_widget(Sparkline::default().data(&newest), line);
    }
}

/// Writes a rate.
pub fn rate_text(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", scaled(rate)))
}

fn tab_line(top: &Top) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, table) in top.picture.tables.iter().enumerate() {
        let text = format!(" {} {} ({}) ", number + 1, table.title, table.rows.len());
        spans.push(Span::styled(text, if number == top.view.table { reversed() } else { Style::new() }));
    }
    Line::from(spans)
}

fn draw_table(frame: &mut Frame<'_>, top: &mut Top, area: Rect) {
    let Some(table) = top.picture.tables.get(top.view.table) else { return };
    let rows = table.chosen(&top.view.of_table().filter, top.view.of_table().sort);
    top.view.drawn(table, rows.len());
    let own = top.view.of_table();
    if rows.is_empty() {
        let text = if table.rows.is_empty() { table.none } else { "no row has all of these words" };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let head = table.columns.iter().enumerate().map(|(number, column)| {
        let mark = match own.sort {
            Some((of, true)) if of == number => " v",
            Some((of, false)) if of == number => " ^",
            _ => "",
        };
        aligned(format!("{}{mark}", column.name), column.is_number)
    });
    let cells = |row: &Vec<Cell>| {
        let cells = row.iter().zip(table.columns);
        Row::new(cells.map(|(cell, column)| aligned(cell.text().to_owned(), column.is_number)).collect::<Vec<_>>())
    };
    let drawn = Table::new(rows.into_iter().map(cells), widths(table))
        .header(Row::new(head).style(bold()))
        .row_highlight_style(reversed());
    let mut state = TableState::new().with_selected(own.row);
    frame.render_stateful_widget(drawn, area, &mut state);
}

/// Returns the widths of columns: text takes what is left.
fn widths(table: &PictureTable) -> Vec<Constraint> {
    let width = |column: &PictureColumn| {
        if column.is_number { Constraint::Length(column.width) } else { Constraint::Fill(column.width) }
    };
    table.columns.iter().map(width).collect()
}

fn aligned(text: String, is_number: bool) -> Line<'static> {
    let line = Line::from(text);
    if is_number { line.right_aligned() } else { line }
}

fn foot_line(top: &Top) -> Line<'static> {
    let own = top.view.of_table();
    if top.view.is_typing {
        return Line::from(format!("filter: {}_   Enter: done   Esc: none", own.filter));
    }
    let filter = if own.filter.is_empty() { String::new() } else { format!("filter: {}   ", own.filter) };
    Line::from(format!("{filter}q quit   Tab, arrows: table, row   / filter   s order   r reverse   Esc: as at first"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use maple_controller::control::socket::AskError;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::super::picture::tests::reading;
    use super::*;

    /// Draws into memory: the lines of the screen.
    fn drawn(top: &mut Top, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
        terminal.draw(|frame| draw(frame, top)).expect("memory");
        let buffer = terminal.backend().buffer().clone();
        let line = |row: &[ratatui::buffer::Cell]| {
            row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
        };
        buffer.content().chunks(usize::from(width)).map(line).collect()
    }

    fn top() -> Top {
        let (mut top, start) = (Top::default(), Instant::now());
        top.take(Ok(reading(start, 100)));
        top.take(Ok(reading(start + Duration::from_secs(1), 1600)));
        top
    }

    fn press(top: &mut Top, code: KeyCode) {
        top.view.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn the_screen_has_rates_tabs_and_the_chosen_table() {
        let mut top = top();
        let lines = drawn(&mut top, 110, 18);
        assert_eq!(lines[0], "maple top: policy acl.py, 2 switches, 1 down, 40 rules");
        assert!(
            lines[1].starts_with("packet-ins") && lines[1].contains("1.50 k/s") && lines[1].contains("1600 in all")
        );
        assert!(lines[8].contains(" 1 talkers (2)  2 drops (1)  3 errors (2)  4 switches (2)"), "{lines:#?}");
        assert!(lines[9].contains("from") && lines[9].contains("bit/s"), "{lines:#?}");
        assert!(lines[10].contains("00:00:00:00:00:02") && lines[10].contains("2.50 M"), "{lines:#?}");
        press(&mut top, KeyCode::Char('4'));
        let lines = drawn(&mut top, 110, 18);
        assert!(lines[10].contains("DOWN for 12 s"), "{lines:#?}");
        assert!(lines[17].starts_with("q quit"), "{lines:#?}");
        for letter in ['/', 's', '1'] {
            press(&mut top, KeyCode::Char(letter));
        }
        let lines = drawn(&mut top, 110, 18);
        assert!(lines[10].contains("s1 (0000") && lines[11].is_empty(), "{lines:#?}");
        assert!(lines[17].starts_with("filter: s1_"), "{lines:#?}");
        press(&mut top, KeyCode::Char('z'));
        assert!(drawn(&mut top, 110, 18)[9].starts_with("no row has all of these words"));
    }

    #[test]
    fn a_controller_that_is_gone_is_reported_and_what_was_there_stays() {
        let mut top = top();
        let gone = || AskError::Unreachable { path: PathBuf::from("/x"), error: std::io::ErrorKind::NotFound.into() };
        top.take(Err(gone()));
        let first = drawn(&mut top, 160, 18);
        assert!(first[0].starts_with("NO ANSWER since ") && first[0].contains("/x"), "{first:#?}");
        assert!(first[10].contains("00:00:00:00:00:02"));
        top.take(Err(gone()));
        assert_eq!(drawn(&mut top, 160, 18)[0], first[0], "since the first time");
        top.take(Ok(reading(Instant::now(), 5)));
        let back = drawn(&mut top, 160, 18);
        assert!(back[0].starts_with("maple top: ") && back[1].contains(" - "), "no rate across that: {back:#?}");
    }

    #[test]
    fn any_size_of_the_screen_will_do() {
        let mut top = top();
        for width in [1, 2, 7, 40, 300] {
            for height in [1, 2, 5, 9, 60] {
                for table in ['1', '2', '3', '4'] {
                    press(&mut top, KeyCode::Char(table));
                    assert_eq!(drawn(&mut top, width, height).len(), usize::from(height));
                }
            }
        }
    }
}
