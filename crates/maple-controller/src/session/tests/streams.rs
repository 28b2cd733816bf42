//! Arbitrary streams of messages.

use super::*;

/// Returns messages of a switch, some of them modified or invalid.
fn stream(seeds: &[(u8, u8, u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (choice, at, change, junk) in seeds {
        let start = bytes.len();
        let version = if choice & 1 == 0 { Version::Of13 } else { Version::Of10 };
        let message = match choice >> 1 & 7 {
            0 => hello(*at, (change & 1 == 0).then_some(u32::from(*change))),
            1 => Message::FeaturesReply(features(7, change & 1 & !choice)),
            2 => packet_in(),
            3 => Message::BarrierReply,
            4 => Message::StatsReply(StatsReply::new(ReplyBody::Desc(desc()))),
            5 => Message::EchoRequest(junk.clone()),
            6 => Message::Error(ErrorMsg { kind: 1, code: 1, data: junk.clone() }),
            _ => Message::Unknown { kind: *at, body: junk.clone() },
        };
        message.encode(version, u32::from(*at), &mut bytes).unwrap();
        if choice & 0x80 != 0 {
            let length = bytes.len() - start;
            bytes[start + usize::from(*at) % length] ^= change;
        }
    }
    bytes
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    /// Checks that no input in any pieces causes a panic, an endless loop, or an output after the end.
    #[test]
    fn no_input_breaks_a_session(
        seeds in proptest::collection::vec(
            (proptest::num::u8::ANY, proptest::num::u8::ANY, proptest::num::u8::ANY,
             proptest::collection::vec(proptest::num::u8::ANY, 0..40)), 0..20),
        piece in 1usize..200,
        greeted in proptest::bool::ANY,
    ) {
        let mut peer = if greeted { Peer::up(Version::Of13) } else { Peer::connect() };
        let mut framer = crate::framing::Framer::default();
        for mut chunk in stream(&seeds).chunks(piece) {
            let Peer { session, now, out } = &mut peer;
            loop {
                match framer.next(&mut chunk) {
                    Ok(StreamPart::Whole(header, message)) => session.on_message(*now, header, message, out),
                    Ok(StreamPart::Completed(header, message)) => session.on_message(*now, header, message, out),
                    Ok(StreamPart::Rest(_)) => break,
                    Err(error) => {
                        session.on_garbage(error, out);
                        break;
                    }
                }
            }
            if out.iter().any(|output| matches!(output, Output::Claim(_))) {
                session.admit(*now, out);
            }
            peer.waits(Duration::from_millis(200));
        }
        let end = peer.out.iter().position(|output| matches!(output, Output::Close(_)));
        let after_end = end.map_or(0, |end| peer.out.len() - end - 1);
        proptest::prop_assert_eq!(after_end, 0);
        let up = peer.out.iter().any(|output| matches!(output, Output::Up(_)));
        let claimed = peer.out.iter().any(|output| matches!(output, Output::Claim(_)));
        proptest::prop_assert!(!up || claimed);
    }
}
