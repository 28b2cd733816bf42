//! The user's choices: a table, its order, a filter, a row. Keys change it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::picture::PictureTable;

/// The number of tables: the keys 1 to 4 lead to them.
const TABLES: usize = 4;
/// The maximum length of a filter, in characters. Chosen: it fits the line of the filter.
const MAX_FILTER: usize = 64;
/// The number of rows of a page.
const PAGE: isize = 10;

/// The user's choices.
#[derive(Debug, Default)]
pub struct View {
    /// The number of the table.
    pub table: usize,
    tables: [TableView; TABLES],
    /// Whether keys are words of the filter.
    pub is_typing: bool,
}

/// The user's choices for a table.
#[derive(Debug, Default)]
pub struct TableView {
    pub filter: String,
    /// The column of the order, and whether large values come first; `None`: what matters most comes first.
    pub sort: Option<(usize, bool)>,
    pub row: usize,
    /// The number of columns, as it was drawn last.
    columns: usize,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    /// The program ends.
    Quit,
    /// The picture is to be drawn again.
    Changed,
    /// The key means nothing here.
    Nothing,
}

impl View {
    /// Returns what is chosen of the table that is shown.
    pub fn of_table(&self) -> &TableView {
        &self.tables[self.table]
    }

    /// Notes the rows that are drawn, and keeps the chosen row among them.
    pub fn drawn(&mut self, table: &PictureTable, rows: usize) {
        let own = &mut self.tables[self.table];
        own.columns = table.columns.len();
        own.row = own.row.min(rows.saturating_sub(1));
    }

    /// Takes in a key.
    pub fn press(&mut self, key: KeyEvent) -> KeyOutcome {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return KeyOutcome::Quit;
        }
        if self.is_typing {
            return self.type_key(key.code);
        }
        let own = &mut self.tables[self.table];
        match key.code {
            KeyCode::Char('q') => return KeyOutcome::Quit,
            KeyCode::Tab | KeyCode::Right => self.table = (self.table + 1) % TABLES,
            KeyCode::BackTab | KeyCode::Left => self.table = (self.table + TABLES - 1) % TABLES,
            KeyCode::Char(digit @ '1'..='4') => self.table = digit as usize - '1' as usize,
            KeyCode::Up => own.step(-1),
            KeyCode::Down => own.step(1),
            KeyCode::PageUp => own.step(-PAGE),
            KeyCode::PageDown => own.step(PAGE),
            KeyCode::Home => own.row = 0,
            KeyCode::End => own.row = usize::MAX,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') => own.sort_by_next(),
            KeyCode::Char('r') => own.sort = own.sort.map(|(column, descends)| (column, !descends)),
            KeyCode::Esc => *own = TableView { columns: own.columns, ..TableView::default() },
            _ => return KeyOutcome::Nothing,
        }
        KeyOutcome::Changed
    }

    fn type_key(&mut self, code: KeyCode) -> KeyOutcome {
        let filter = &mut self.tables[self.table].filter;
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(letter) if filter.chars().count() < MAX_FILTER && !letter.is_control() => filter.push(letter),
            _ => return KeyOutcome::Nothing,
        }
        KeyOutcome::Changed
    }
}

impl TableView {
    fn step(&mut self, by: isize) {
        self.row = self.row.saturating_add_signed(by);
    }

    /// Goes on to the next column as the order; after the last one to the order without a column. Large values first.
    fn sort_by_next(&mut self) {
        let next = self.sort.map_or(0, |(column, _)| column + 1);
        self.sort = (next < self.columns).then_some((next, true));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::picture::Picture;
    use super::super::picture::tests::reading;
    use super::*;

    /// Presses keys, with the picture drawn before each.
    fn press(view: &mut View, keys: impl IntoIterator<Item = KeyCode>) -> KeyOutcome {
        let picture = Picture::new(&reading(Instant::now(), 1), None);
        let mut last = KeyOutcome::Nothing;
        for code in keys {
            let table = &picture.tables[view.table];
            let rows = table.chosen(&view.of_table().filter, view.of_table().sort).len();
            view.drawn(table, rows);
            last = view.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    fn letters(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    #[test]
    fn tables_are_chosen_by_tab_arrows_and_numbers() {
        let mut view = View::default();
        for (code, table) in
            [(KeyCode::Tab, 1), (KeyCode::Right, 2), (KeyCode::BackTab, 1), (KeyCode::Left, 0), (KeyCode::Left, 3)]
        {
            assert_eq!((press(&mut view, [code]), view.table), (KeyOutcome::Changed, table));
        }
        press(&mut view, letters("2"));
        assert_eq!(view.table, 1);
        assert_eq!(press(&mut view, letters("x")), KeyOutcome::Nothing);
        assert_eq!(press(&mut view, letters("q")), KeyOutcome::Quit);
        assert_eq!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), KeyOutcome::Quit);
    }

    #[test]
    fn a_filter_is_typed_of_its_own_table_and_q_is_a_letter_of_it() {
        let mut view = View::default();
        press(&mut view, letters("/qu"));
        press(&mut view, [KeyCode::Backspace]);
        assert_eq!((view.of_table().filter.as_str(), view.is_typing), ("q", true));
        press(&mut view, [KeyCode::Enter, KeyCode::Tab]);
        assert_eq!((view.of_table().filter.as_str(), view.is_typing), ("", false));
        press(&mut view, [KeyCode::BackTab, KeyCode::Esc]);
        assert_eq!(view.of_table().filter, "");
        press(&mut view, letters(&format!("/{}", "x".repeat(500))));
        assert_eq!(view.of_table().filter.len(), MAX_FILTER);
        assert_eq!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), KeyOutcome::Quit);
    }

    #[test]
    fn the_order_goes_through_the_columns_and_the_row_stays_in_the_table() {
        let mut view = View::default();
        press(&mut view, letters("s"));
        assert_eq!(view.of_table().sort, Some((0, true)));
        press(&mut view, letters("sr"));
        assert_eq!(view.of_table().sort, Some((1, false)));
        press(&mut view, letters("sssss"));
        assert_eq!(view.of_table().sort, None, "there are six columns");
        press(&mut view, [KeyCode::End, KeyCode::Null]);
        assert_eq!(view.of_table().row, 1, "there are two rows");
        press(&mut view, [KeyCode::Up, KeyCode::Up]);
        assert_eq!(view.of_table().row, 0);
    }
}
