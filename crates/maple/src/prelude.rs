//! The names that most policies need: `use maple::prelude::*;`.
//!
//! ```
//! use maple::prelude::*;
//!
//! let app = App::new(|_: &Packet, net: &Net| net.flood());
//! assert!(format!("{app:?}").starts_with("App"));
//! ```

pub use crate::app::App;
pub use crate::compose::Compose;
pub use crate::field::{Field, Prefix};
pub use crate::net::{Dpid, Location, Mac, Net, PortNo};
pub use crate::packet::Packet;
pub use crate::policy::{Policy, PolicyError};
pub use crate::route::Route;
pub use crate::state::{Access, Counter, Query, Stop, Table, Tx, Var};
