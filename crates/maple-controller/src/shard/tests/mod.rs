//! Tests of whole shards, with real sockets.

mod fairness;
mod schedules;
