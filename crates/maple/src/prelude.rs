//! The names that most policies need: `use maple::prelude::*;`.
//!
//! ```
//! use maple::prelude::*;
//!
//! let app = App::new(|_: &Packet, net: &Net| net.flood());
//! assert!(format!("{app:?}").starts_with("App"));
//! ```

pub use maple_core::network::{Location, Mac};
pub use maple_core::policy::PolicyError;
pub use maple_core::route::Route;
pub use maple_core::state::{Access, Counter, Stop, Table, Tx, Var};
pub use maple_wire::{Dpid, Field, PortNo};

pub use crate::app::App;
pub use crate::compose::Compose;
pub use crate::net::Net;
pub use crate::packet::Packet;
pub use crate::policy::Policy;
pub use crate::prefix::Prefix;
pub use crate::query::Query;
