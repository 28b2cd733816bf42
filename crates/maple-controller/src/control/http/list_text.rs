//! The text of a list: rows in blocks of memory, and the parts in which they are sent.
//!
//! Rows are sorted after they have become text. So the answer names stretches of the blocks in their order, and a part
//! of it is copied when the client has read the ones before.

use std::hash::Hasher as _;

use serde_json::Value;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The size at which a block is full, in bytes.
const BLOCK: usize = 256 << 10;
/// The size of a part, in bytes. Only its last row goes beyond.
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
        if self.blocks.last().is_none_or(|block| block.len() >= BLOCK) {
            self.blocks.push(Vec::new());
        }
        let block = self.blocks.len() - 1;
        let text = &mut self.blocks[block];
        let from = text.len();
        text.extend_from_slice(row.to_string().as_bytes());
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
    /// Creates the text of a list with these rows.
    pub fn new(texts: RowTexts, rows: Vec<RowText>, next: &Value, total: usize) -> ListText {
        let (head, tail) = (format!("{{\"next\":{next},\"rows\":["), format!("],\"total\":{total}}}"));
        ListText { texts, rows, head: head.into_bytes(), tail: tail.into_bytes() }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        let rows: usize = self.rows.iter().map(|row| row.to - row.from).sum();
        self.head.len() + rows + self.rows.len().saturating_sub(1) + self.tail.len()
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
