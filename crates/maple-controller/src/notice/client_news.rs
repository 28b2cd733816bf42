//! News about clients of the HTTP API that people should know.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::printable::printable;

/// An act of a client of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientNews {
    /// A client asked for a change.
    Asked {
        /// The name of its token.
        client: Arc<str>,
        /// Its address.
        peer: IpAddr,
        /// The method and the path.
        what: Arc<str>,
        /// The reason why it was refused, if it was.
        refused: Option<Arc<str>>,
        /// Whether its role allows it. Clients can ask for what they may not do as often as they like.
        is_allowed: bool,
    },
    /// Too many wrong tokens came from an address, so it gets no answer for a minute.
    LockedOut {
        /// The address.
        peer: IpAddr,
    },
}

impl fmt::Display for ClientNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientNews::Asked { client, peer, what, refused, .. } => {
                write!(f, "{client} at {peer}: {}", printable(what))?;
                refused.as_ref().map_or(Ok(()), |why| write!(f, ", refused: {}", printable(why)))
            }
            ClientNews::LockedOut { peer } => {
                write!(f, "too many wrong tokens came from {peer}: it gets no answer of the HTTP API for a minute")
            }
        }
    }
}
