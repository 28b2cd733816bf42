//! The output of `tshark -z follow,tcp,raw,N`: a line of hex digits for each piece of a TCP stream, those of one
//! direction after a tab, between a heading and a line of `=`.
//!
//! A message may begin in one piece and end in the next one of its direction, so the pieces of each direction are
//! joined.

use super::hex;

/// The heading of a stream.
const HEADING: &[u8] = b"Follow: tcp,raw";

/// The directions of a stream that is being read: the lines without a tab, and those with one.
type Directions = [Vec<u8>; 2];

/// Returns the bytes of each direction of each stream, in order. `None` if the text has another form: it has neither
/// the heading nor digits alone in lines of both kinds.
///
/// # Errors
/// If a line under the heading is not hex.
pub(super) fn read(text: &[u8]) -> anyhow::Result<Option<Vec<Vec<u8>>>> {
    let lines = || (1..).zip(text.split(|byte| *byte == b'\n')).map(|(number, line)| (number, line.trim_ascii_end()));
    let mut streams: Vec<Directions> = Vec::new();
    let mut is_under_heading = false;
    for (number, line) in lines() {
        match line {
            b"" => {}
            _ if line == HEADING => {
                is_under_heading = true;
                streams.push(Directions::default());
            }
            _ if line.starts_with(b"Filter: ") || line.starts_with(b"Node ") => {}
            _ if line.iter().all(|byte| *byte == b'=') => is_under_heading = false,
            _ if is_under_heading => streams.last_mut().map_or(Ok(()), |stream| add(stream, number, line))?,
            _ => {}
        }
    }
    if streams.is_empty() {
        let mut both = Directions::default();
        let is_piece = |line: &[u8]| line.strip_prefix(b"\t").unwrap_or(line).iter().all(u8::is_ascii_hexdigit);
        if !lines().all(|(_, line)| is_piece(line))
            || lines().any(|(number, line)| add(&mut both, number, line).is_err())
        {
            return Ok(None);
        }
        if both.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        streams.push(both);
    }
    Ok(Some(streams.into_iter().flatten().filter(|bytes| !bytes.is_empty()).collect()))
}

/// Adds a line to its direction.
fn add(stream: &mut Directions, number: usize, line: &[u8]) -> anyhow::Result<()> {
    hex::parse_line(line, number, &mut stream[usize::from(line.starts_with(b"\t"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLLOWED: &str = "
===================================================================
Follow: tcp,raw
Filter: tcp.stream eq 0
Node 0: 10.0.0.2:40000
Node 1: 10.0.0.1:6653
04000008
\t0405000800000002
00000001
===================================================================
";

    fn followed(text: &str) -> Option<Vec<Vec<u8>>> {
        read(text.as_bytes()).unwrap()
    }

    #[test]
    fn segments_of_each_direction_are_put_together() {
        let both = vec![vec![4, 0, 0, 8, 0, 0, 0, 1], vec![4, 5, 0, 8, 0, 0, 0, 2]];
        assert_eq!(followed(FOLLOWED), Some(both.clone()));
        assert_eq!(followed(&FOLLOWED.replace('\n', "\r\n")), Some(both.clone()));
        assert_eq!(followed("04000008\n\t0405000800000002\n00000001\n"), Some(both.clone()), "the pieces alone");
        let with_summaries = format!("  1 0.000000 10.0.0.2 \u{2192} 10.0.0.1 TCP 54\n{FOLLOWED}{FOLLOWED}");
        assert_eq!(followed(&with_summaries), Some([both.clone(), both].concat()), "two streams");
    }

    #[test]
    fn other_text_is_none_of_this() {
        for text in ["", "0400\n0008\n", "\t0400\n\t0008\n", "04 00\n\t00 08\n", "0400\n\t00g0\n", "040\n\t0008\n"] {
            assert_eq!(followed(text), None, "{text:?}");
        }
        assert_eq!(followed(&FOLLOWED.replace("tcp,raw", "tcp,hex")), None);
        let error = read(FOLLOWED.replace("0405", "04z5").as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "line 8, column 4: 'z' is not a hex digit");
    }
}
