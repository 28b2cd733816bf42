//! The text of a list: rows in blocks of memory, and the parts in which they are sent.
//!
//! Rows are sorted after they have become text. So the answer names stretches of the blocks in their order, and a part
//! of it is copied when the client has read the ones before. A page of a longer list keeps its own rows alone.

use std::hash::Hasher as _;

use serde_json::Value;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The size of a block, in bytes. Only a row that is longer has one of its own size. Chosen: a list of a million rows
/// is some hundred allocations, and a cut block wastes little.
const BLOCK: usize = 256 << 10;
/// The size of a part, in bytes. Only its last row goes beyond. Chosen: a part is one write to a socket, and little of
/// an answer is in memory twice.
const PART: usize = 64 << 10;

/// The texts of rows, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct RowTexts {
    blocks: Vec<Vec<u8>>,
}

/// The place of a row's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowText {
    block: usize,
    from: usize,
    to: usize,
}

impl RowTexts {
    /// Adds the text of a row.
    pub fn add(&mut self, row: &Value) -> RowText {
        self.append(row.to_string().as_bytes())
    }

    fn append(&mut self, row: &[u8]) -> RowText {
        if self.blocks.last().is_none_or(|block| block.len() + row.len() > BLOCK) {
            // A short list has one block, which grows with it. In others nothing is left over.
            let room = if self.blocks.is_empty() { row.len() } else { BLOCK.max(row.len()) };
            self.blocks.push(Vec::with_capacity(room));
        }
        let block = self.blocks.len() - 1;
        let text = &mut self.blocks[block];
        let from = text.len();
        text.extend_from_slice(row);
        RowText { block, from, to: text.len() }
    }

    fn of(&self, row: RowText) -> &[u8] {
        &self.blocks[row.block][row.from..row.to]
    }
}

/// The text of a list: `{"next":…,"rows":[…],"total":…}`.
#[derive(Debug)]
pub(super) struct ListText {
    texts: RowTexts,
    rows: Vec<RowText>,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl ListText {
    /// Creates the text of a list with these rows, which may be some of those that have become text.
    pub fn new(mut texts: RowTexts, mut rows: Vec<RowText>, next: &Value, total: usize) -> ListText {
        if rows.len() < total {
            let mut own = RowTexts::default();
            rows.iter_mut().for_each(|row| *row = own.append(texts.of(*row)));
            texts = own;
        }
        texts.blocks.iter_mut().for_each(Vec::shrink_to_fit);
        rows.shrink_to_fit();
        let (head, tail) = (format!("{{\"next\":{next},\"rows\":["), format!("],\"total\":{total}}}"));
        ListText { texts, rows, head: head.into_bytes(), tail: tail.into_bytes() }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        let rows: usize = self.rows.iter().map(|row| row.to - row.from).sum();
        self.head.len() + rows + self.rows.len().saturating_sub(1) + self.tail.len()
    }

    /// Returns how many bytes of memory it takes.
    pub fn held_bytes(&self) -> usize {
        let blocks: usize = self.texts.blocks.iter().map(Vec::capacity).sum();
        blocks + self.rows.capacity() * size_of::<RowText>() + self.head.capacity() + self.tail.capacity()
    }

    /// Returns the digest of the whole text.
    pub fn digest(&self) -> [u8; 16] {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.head);
        for (number, row) in self.rows.iter().enumerate() {
            hasher.write(if number == 0 { b"" } else { b"," });
            hasher.write(self.texts.of(*row));
        }
        hasher.write(&self.tail);
        hasher.finish128().as_bytes()
    }

    /// Returns the text in parts. Memory is given back at the end.
    pub fn into_parts(self) -> impl Iterator<Item = Vec<u8>> + Send {
        let ListText { texts, rows, head, tail } = self;
        let (mut begun, mut tail, mut next) = (head, Some(tail), 0);
        std::iter::from_fn(move || {
            while let Some(row) = rows.get(next).filter(|_| begun.len() < PART) {
                if next > 0 {
                    begun.push(b',');
                }
                begun.extend_from_slice(texts.of(*row));
                next += 1;
            }
            if next == rows.len() {
                begun.extend(tail.take().into_iter().flatten());
            }
            Some(std::mem::take(&mut begun)).filter(|part| !part.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_long_list_holds_its_own_rows_alone() {
        let row = |number: u64| Value::from(format!("{number:01000}"));
        let mut texts = RowTexts::default();
        let rows: Vec<RowText> = (0..10_000).map(|number| texts.add(&row(number))).collect();
        let page = ListText::new(texts, vec![rows[7000], rows[1]], &Value::Null, rows.len());
        assert!(page.held_bytes() < 3000, "{}", page.held_bytes());
        let (length, digest, text) = (page.len(), page.digest(), page.into_parts().flatten().collect::<Vec<u8>>());
        let expected = format!("{{\"next\":null,\"rows\":[{},{}],\"total\":10000}}", row(7000), row(1));
        assert_eq!((String::from_utf8_lossy(&text).as_ref(), length), (expected.as_str(), expected.len()));
        assert_eq!(digest, SipHasher13::new().hash(&text).as_bytes());
    }

    #[test]
    fn the_blocks_of_a_long_list_have_no_room_left_over_while_rows_are_added() {
        let mut texts = RowTexts::default();
        let rows = (0..50_000).map(|number| texts.add(&Value::from("x".repeat(400 + number % 60))));
        let length: usize = rows.map(|row| row.to - row.from).sum();
        let held: usize = texts.blocks.iter().map(Vec::capacity).sum();
        assert!(held <= length + length / 100 + 2 * BLOCK, "{held} bytes for {length}");
    }

    #[test]
    fn the_bytes_that_a_list_holds_are_about_the_size_of_its_text() {
        let mut texts = RowTexts::default();
        let rows: Vec<RowText> = (0..3000).map(|number| texts.add(&Value::from("x".repeat(number % 700)))).collect();
        let all = ListText::new(texts, rows, &Value::Null, 3000);
        let held = all.held_bytes();
        assert!(held >= all.len() - 3000 && held <= all.len() + 3000 * size_of::<RowText>() + 1000, "{held}");
    }
}
