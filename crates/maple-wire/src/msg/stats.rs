//! Statistics (1.0 §5.3.5) and multipart (1.3 §7.3.5) messages: one enum for requests, one for replies.

/// A request for statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsRequest {}

/// A reply with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsReply {}
