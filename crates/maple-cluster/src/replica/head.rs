//! The head: the key that says which batch was written last, and whether the state is complete.

use std::str;

use crate::keys::Record;

/// The content of the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The generation of the master that wrote it.
    pub generation: u64,
    /// The number of the batch in that generation.
    pub sequence: u64,
    /// Whether the first state of the cluster is written as a whole.
    pub is_complete: bool,
}

/// The reason why nothing is read that a head stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// Rows of another format: this one.
    Format(String),
    /// Bytes that are not a head.
    Damaged,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeadError::Format(format) => {
                write!(f, "the state in etcd has format {format}: another version of Maple wrote it")
            }
            HeadError::Damaged => f.write_str("the state in etcd is damaged: its key `state/head` is not Maple's"),
        }
    }
}

impl Head {
    /// Reads a head that may not be there. Without one, nothing is complete.
    pub fn of(record: Option<&Record>, format: &str) -> Result<Head, HeadError> {
        record.map_or(Ok(Head::default()), |record| Head::parse(&record.value, format))
    }

    /// Reads a head.
    pub fn parse(value: &[u8], format: &str) -> Result<Head, HeadError> {
        let text = str::from_utf8(value).map_err(|_| HeadError::Damaged)?;
        let parts: Vec<&str> = text.split(' ').collect();
        let [of, generation, sequence, state] = parts[..] else { return Err(HeadError::Damaged) };
        if of != format {
            return Err(HeadError::Format(of.to_owned()));
        }
        let number = |text: &str| text.parse().map_err(|_| HeadError::Damaged);
        let is_complete = match state {
            "complete" => true,
            "begun" => false,
            _ => return Err(HeadError::Damaged),
        };
        Ok(Head { generation: number(generation)?, sequence: number(sequence)?, is_complete })
    }

    /// Returns what is written.
    pub fn text(self, format: &str) -> Vec<u8> {
        let state = if self.is_complete { "complete" } else { "begun" };
        format!("{format} {} {} {state}", self.generation, self.sequence).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_nothing_else_is_one() {
        for is_complete in [false, true] {
            let head = Head { generation: 7, sequence: u64::MAX, is_complete };
            assert_eq!(Head::parse(&head.text("2"), "2"), Ok(head));
            assert_eq!(Head::parse(&head.text("3"), "2"), Err(HeadError::Format("3".into())));
        }
        for wrong in [&b""[..], b"\xff", b"2 7 1", b"2 7 x complete", b"2 7 1 half", b"2 7 1 complete "] {
            assert_eq!(Head::parse(wrong, "2"), Err(HeadError::Damaged), "{}", wrong.escape_ascii());
        }
    }
}
