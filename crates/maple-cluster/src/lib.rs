//! Several controllers for one network: who is master, and how switches keep the others out.
//!
//! State machines without I/O and clocks. Events go in, actions come out, and whoever owns them carries the actions
//! out and says what time it is. [`run_member`] and [`run_replica`] do that with etcd.
//!
//! * [`Member`]: one controller of a cluster. It keeps a lease in a store such as etcd, campaigns for mastership, and
//!   knows who is there.
//! * [`Fence`]: the role of this controller at one switch. It says whether the controller may change the switch.
//! * [`Replica`]: its copy of the tracked state. The master writes each commit to the store, and standbys follow.
//! * [`StreamSource`] and [`StreamFollower`]: the rows that the store does not have, from the master to standbys.
//!
//! # Why a former master changes nothing
//!
//! A store can't keep a controller from acting that is paused after it has looked: on waking it acts on what it saw. So
//! the switch is the fence. The number of a mastership, its *generation*, is the store's revision at which the key of
//! mastership was written. The store gives each revision once, and only greater ones, so generations are those of one
//! member each, and later masters have greater ones. A switch makes a controller master that gives a generation, makes
//! the former master a slave, and refuses smaller generations from then on (OpenFlow 1.3.5, 6.3.6). A slave can't
//! change it. Therefore:
//!
//! 1. A controller changes a switch only while its latest word is that it is master there ([`Fence::mastery`]),
//!    whatever the store says. A connection begins with a role that is not fenced (equal), so nothing is sent before.
//! 2. It asks to be master only with the generation of a key that it wrote under its own lease, and that it has seen.
//! 3. It never asks to be equal.
//!
//! A store that is away changes nothing: the master goes on while switches call it master, though its lease has ended.
//! If another member becomes master meanwhile, switches that the new one reaches say so, and others have the old one
//! still: each switch has one master at every moment.
//!
//! OpenFlow 1.0 has no generations. Nicira's extension has roles without them: the last one that asks is master. There
//! a member may act only while its lease is good ([`Member::lease_ends`]), and one that is paused between looking and
//! sending is not kept out.

mod etcd;
mod etcd_state;
mod fence;
mod keys;
mod member;
mod replica;
mod stream;
mod view;

pub use etcd::{MemberHandle, News, run_member};
pub use etcd_state::{ReplicaHandle, StateNews, StateOwner, run_replica};
pub use fence::{Fence, FenceChange};
pub use keys::{ClusterKeys, Record};
pub use member::{Action, Event, Member, MemberOptions, Time};
pub use replica::{
    ChangedRows, CommitRows, Gate, KeyAtRevision, MAX_BYTES, MAX_ROWS, Replica, ReplicaAction, ReplicaEvent,
    ReplicaOptions, StateBatch,
};
pub use stream::{
    StreamCopy, StreamError, StreamFollower, StreamLimits, StreamNews, StreamPosition, StreamQuestion, StreamSource,
    StreamedPart, StreamedRow,
};
pub use view::{Change, MasterRecord, View};
