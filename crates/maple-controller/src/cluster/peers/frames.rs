//! Messages between members: a length in four bytes, and then a value in the format of what outlives the process.

use std::io;

use maple_cluster::{StreamQuestion, StreamedPart};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::storage::format::{bytes, read};
use crate::storage::{FORMAT, STREAM_LIMITS};

/// The maximum length of a greeting, in bytes: names are much shorter.
pub(super) const MAX_GREETING: usize = 4096;
/// The maximum length of a question, in bytes: it has a number and two positions.
pub(super) const MAX_QUESTION: usize = 256;
/// The maximum length of an answer, in bytes: a part, which may have one row beyond its size, and what is around rows.
/// Of rows without contents that is more than of others.
pub(super) const MAX_ANSWER: usize = STREAM_LIMITS.row + 16 * STREAM_LIMITS.part;

/// The number of the form of these messages and of the rows.
const PROTOCOL: u32 = 1;

/// The first message of a standby.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub cluster: String,
    pub name: String,
    /// The number of the protocol, and that of the format of leaves.
    pub format: String,
}

/// Each further one.
pub(super) type Question = StreamQuestion;

/// The answer of a member.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PeerAnswer {
    Part(StreamedPart),
    /// The member is not master, or not yet.
    NotMaster,
    /// The member does not answer, for this reason, and ends the connection.
    Refused(String),
}

/// Returns the format that both sides have to have.
pub(super) fn format() -> String {
    format!("{PROTOCOL}.{FORMAT}")
}

/// Reads a message of at most `most` bytes.
pub(super) async fn receive<T: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin), most: usize) -> io::Result<T> {
    let length = from.read_u32().await? as usize;
    if length > most {
        return Err(invalid(format!("a message of {length} bytes is longer than any")));
    }
    // What has not come takes no memory.
    let mut frame = Vec::new();
    from.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    read(&frame).map_err(|damaged| invalid(damaged.to_string()))
}

/// Writes a message.
pub(super) async fn send(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let value = bytes(message).map_err(|error| invalid(error.to_string()))?;
    let length = u32::try_from(value.len()).map_err(|_| invalid("a message is too long".into()))?;
    let frame = [&length.to_be_bytes()[..], &value].concat();
    to.write_all(&frame).await?;
    to.flush().await
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use maple_cluster::{StreamPosition, StreamSource};

    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(test)
    }

    fn sent(message: &impl Serialize) -> Vec<u8> {
        let mut frame = Vec::new();
        run(send(&mut frame, message)).expect("it has a form");
        frame
    }

    #[test]
    fn messages_are_received_as_they_were_sent_and_no_beginning_of_one_is() {
        let mut source = StreamSource::new(7, STREAM_LIMITS);
        source.put(b"key", Some(&[0, 1, 255]));
        source.put(b"gone", Some(b"x"));
        source.put(b"gone", None);
        let position = StreamPosition { life: 7, began: u64::MAX, change: 0 };
        let question = Question { number: u64::MAX, positions: vec![position; 2] };
        let answer = PeerAnswer::Part(source.answer(&question, u64::MAX));
        assert!(sent(&question).len() <= MAX_QUESTION);
        for answer in [answer, PeerAnswer::NotMaster, PeerAnswer::Refused("no".into())] {
            let frame = sent(&answer);
            let got: PeerAnswer = run(receive(&mut &frame[..], MAX_ANSWER)).expect("it is whole");
            assert_eq!(got, answer);
            for end in 0..frame.len() {
                let error = run(receive::<PeerAnswer>(&mut &frame[..end], MAX_ANSWER)).expect_err("it is not whole");
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            }
        }
    }

    #[test]
    fn a_message_that_is_too_long_or_means_nothing_is_an_error() {
        let error =
            |frame: &[u8]| run(receive::<Question>(&mut &*frame, MAX_QUESTION)).expect_err("it is wrong").kind();
        assert_eq!(error(&[0, 0, 1, 1]), io::ErrorKind::InvalidData);
        assert_eq!(error(&[0, 0, 0, 1, 255]), io::ErrorKind::InvalidData);
        assert_eq!(error(&[0, 0, 1, 0, 1]), io::ErrorKind::UnexpectedEof);
    }

    /// Rows without values take the most bytes for their size.
    #[test]
    fn the_longest_part_is_not_too_long() {
        let mut source = StreamSource::new(u64::MAX, STREAM_LIMITS);
        (0..=u16::MAX).for_each(|row| _ = source.put(&row.to_be_bytes(), Some(&[])));
        let part = source.answer(&Question::default(), u64::MAX);
        assert!(part.to < part.latest, "it is full");
        assert!(sent(&PeerAnswer::Part(part)).len() < 16 * STREAM_LIMITS.part);
    }
}
