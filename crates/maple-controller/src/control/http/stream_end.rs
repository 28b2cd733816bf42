//! The last event of a stream: why it ends.

use axum::http::StatusCode;
use serde_json::json;

use super::problem::Problem;

/// The reason why a stream of events ends before its reader ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The token, or the session, that the reader has shown is not good any more.
    Token,
    /// The place of tracked state is refused, or making its value failed.
    Place(Problem),
    /// The place is refused, since another policy runs.
    Policy(Problem),
    /// The controller ends.
    Controller,
}

impl StreamEnd {
    /// Returns the last event of a stream, which says why it ends.
    pub fn event(&self) -> String {
        let (reason, status, detail, field) = match self {
            StreamEnd::Token => ("token", StatusCode::UNAUTHORIZED, "the token or session has ended", ""),
            StreamEnd::Place(why) => ("place", why.status, why.detail(), why.in_field()),
            StreamEnd::Policy(why) => ("policy", why.status, why.detail(), why.in_field()),
            StreamEnd::Controller => ("controller", StatusCode::SERVICE_UNAVAILABLE, "the controller ends", ""),
        };
        let data = json!({ "reason": reason, "status": status.as_u16(), "detail": detail, "field": field });
        format!("event: gone\ndata: {data}\n\n")
    }
}
