//! Refusals as `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::queries::LateShard;
use super::super::request::{RefusalKind, RequestError};

/// The number of seconds for which a client is asked to wait before it asks again: the smallest that the header can say
/// (RFC 9110 §10.2.3).
const RETRY_AFTER: u64 = 1;

/// The reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub status: StatusCode,
    /// The reason in words.
    detail: String,
    /// The wrong part of the request: a parameter, or a member of the body with dots between the names.
    field: String,
    /// The shard that is late, if one is.
    shard: Option<usize>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// Creates a refusal of the whole request.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), field: String::new(), shard: None, headers: Vec::new() }
    }

    /// Creates a refusal of one part of the request.
    pub fn field(status: StatusCode, field: &str, detail: impl Into<String>) -> Problem {
        Problem { field: field.to_owned(), ..Problem::new(status, detail) }
    }

    /// Creates a refusal of a request that can be served a little later.
    pub fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).with(header::RETRY_AFTER, RETRY_AFTER.into())
    }

    /// Creates a refusal of a request that a shard did not answer in time.
    pub fn late(shard: usize, detail: impl Into<String>) -> Problem {
        Problem { shard: Some(shard), ..Problem::busy(detail) }
    }

    /// Translates the refusal of a request that came from the part `field`, which is a part of the path if `in_path`.
    pub fn from_refusal(refusal: &RequestError, field: &str, detail: &str, in_path: bool) -> Problem {
        let status = match refusal.kind {
            RefusalKind::Wrong if in_path => StatusCode::NOT_FOUND,
            RefusalKind::Wrong => StatusCode::BAD_REQUEST,
            RefusalKind::Conflict => StatusCode::CONFLICT,
            RefusalKind::Late(shard) => return Problem::late(shard, detail),
            RefusalKind::LateDisk => return Problem::busy(detail),
            RefusalKind::Unconfirmed => StatusCode::GATEWAY_TIMEOUT,
            RefusalKind::NotKept => StatusCode::NOT_FOUND,
        };
        Problem::field(status, field, detail)
    }

    /// Translates the refusal of a standby, which no part of the request is to blame for.
    pub fn of_standby(refusal: RequestError) -> Problem {
        Problem::new(StatusCode::CONFLICT, refusal.text)
    }

    /// Adds a header to the answer.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.headers.push((name, value));
        self
    }

    /// Returns the reason in words.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the wrong part of the request; empty for the whole request.
    pub fn in_field(&self) -> &str {
        &self.field
    }

    fn to_json(&self) -> Value {
        let mut all = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "field": self.field,
        });
        if let Some(shard) = self.shard {
            all["shard"] = shard.into();
        }
        all
    }
}

impl From<LateShard> for Problem {
    fn from(late: LateShard) -> Problem {
        Problem::late(late.shard, late.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.extend(self.headers);
        response
    }
}
