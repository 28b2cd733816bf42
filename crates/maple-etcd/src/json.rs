//! The gateway's JSON: base64, numbers as strings, and absent members for whatever is zero or empty.

use std::fmt::Display;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// Writes bytes as the gateway takes them.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads bytes.
pub fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads a number that is a string, or a number as etcd's newer gateways may write small ones.
pub fn number<'de, N: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<N, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(serde_json::Number),
    }
    let text = match Written::deserialize(from)? {
        Written::Text(text) => text,
        Written::Number(number) => number.to_string(),
    };
    text.parse().map_err(D::Error::custom)
}

/// The beginning of every answer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Header {
    #[serde(deserialize_with = "number")]
    pub revision: u64,
}

/// An answer that begins with the revision of the store.
pub trait Answer: DeserializeOwned {
    /// Returns the revision; 0 if the answer has none.
    fn revision(&self) -> u64;
}

/// An error instead of an answer. Up to 3.5 the code of one in a stream is `grpc_code`.
#[derive(Debug, Deserialize)]
pub struct ErrorBody {
    #[serde(alias = "grpc_code", default)]
    pub code: u32,
    pub message: String,
}

/// Reads the body of an answer that is an error. That of a stream which failed before its first line is nested.
pub fn error_body(body: &[u8]) -> Result<ErrorBody, serde_json::Error> {
    #[derive(Deserialize)]
    struct Nested {
        error: ErrorBody,
    }
    // `error` is a text in 3.4's errors that are not nested.
    serde_json::from_slice(body).or_else(|_| serde_json::from_slice::<Nested>(body).map(|body| body.error))
}

/// One line of a stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamLine<T> {
    Result(T),
    Error(ErrorBody),
}

/// Reads a line of a stream. The older gateway has members besides.
pub fn stream_line<T: DeserializeOwned>(line: &[u8]) -> Result<StreamLine<T>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Line<T> {
        result: Option<T>,
        error: Option<ErrorBody>,
    }
    match serde_json::from_slice::<Line<T>>(line)? {
        Line { error: Some(error), .. } => Ok(StreamLine::Error(error)),
        Line { result: Some(result), .. } => Ok(StreamLine::Result(result)),
        Line { .. } => Err(serde_json::Error::custom("neither `result` nor `error`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_strings_numbers_or_absent() {
        let revision = |text: &str| serde_json::from_str::<Header>(text).map(|header| header.revision);
        assert_eq!(revision(r#"{"revision":"18446744073709551615","raft_term":"2"}"#).unwrap(), u64::MAX);
        assert_eq!(revision(r#"{"revision":7}"#).unwrap(), 7);
        assert_eq!(revision("{}").unwrap(), 0);
        for wrong in [r#"{"revision":"x"}"#, r#"{"revision":"-1"}"#, r#"{"revision":1.5}"#, r#"{"revision":[]}"#] {
            revision(wrong).unwrap_err();
        }
    }

    #[test]
    fn errors_have_three_shapes() {
        for body in [
            &br#"{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}"#[..],
            br#"{"code":14,"message":"etcdserver: no leader"}"#,
            br#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"x"}}"#,
            b"{\"error\":{\"code\":14,\"message\":\"etcdserver: no leader\"}}\n",
        ] {
            let ErrorBody { code, message } = error_body(body).unwrap();
            assert_eq!((code, &message[..]), (14, "etcdserver: no leader"));
        }
        for wrong in [&b"{}"[..], br#"{"error":"x"}"#, b"Not Found", b""] {
            error_body(wrong).unwrap_err();
        }
    }

    #[test]
    fn errors_of_streams_have_two_shapes() {
        let old = br#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"x"}}"#;
        let new = br#"{"error":{"code":14,"message":"etcdserver: no leader","details":[]}}"#;
        for line in [&old[..], &new[..]] {
            match stream_line::<Header>(line).unwrap() {
                StreamLine::Error(ErrorBody { code: 14, message }) if message == "etcdserver: no leader" => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(stream_line::<Header>(br#"{"result":{}}"#), Ok(StreamLine::Result(Header { revision: 0 }))));
        stream_line::<Header>(b"{}").unwrap_err();
        stream_line::<Header>(b"").unwrap_err();
    }
}
