//! The reasons why a switch refuses a request, with their OpenFlow errors (1.0 §5.4.4, 1.3 §7.4.4).

use maple_wire::Version;
use maple_wire::msg::ErrorMsg;

/// Makes the reasons from a table: type and code of the error in 1.3, and in 1.0 those of the nearest one that it has.
macro_rules! refusals {
    ($(#[doc = $doc:literal] $reason:ident = $in13:expr, $in10:expr;)*) => {
        /// The reason why a request was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refusal {
            $(#[doc = $doc] $reason,)*
        }

        impl Refusal {
            /// Returns type and code of the error in this version's numbering.
            ///
            /// For a reason without a number in 1.0, it returns the nearest one that 1.0 has.
            pub fn number(self, version: Version) -> (u16, u16) {
                match (self, version) {
                    $((Refusal::$reason, Version::Of13) => $in13,
                    (Refusal::$reason, Version::Of10) => $in10,)*
                }
            }
        }
    };
}

refusals! {
    /// No version in common.
    Incompatible = (0, 0), (0, 0);
    /// A message of another version than the one agreed on.
    BadVersion = (1, 0), (1, 0);
    /// A message type that a switch does not handle.
    BadType = (1, 1), (1, 1);
    /// A statistics or multipart type that it does not know.
    BadStats = (1, 2), (1, 2);
    /// An experimenter (vendor) that it does not know.
    BadExperimenter = (1, 3), (1, 3);
    /// A length that does not fit the contents.
    BadLength = (1, 6), (1, 6);
    /// A buffer that it does not hold.
    BufferUnknown = (1, 8), (1, 8);
    /// A table that it does not have, in a request other than a flow-mod.
    BadRequestTable = (1, 9), (1, 1);
    /// A slave connection may not change the switch.
    IsSlave = (1, 10), (1, 5);
    /// A packet-out's in_port that can't be one.
    BadInPort = (1, 11), Refusal::NICIRA;
    /// An action type that it does not know.
    ActionType = (2, 0), (2, 0);
    /// An action of an experimenter that it does not know.
    ActionExperimenter = (2, 2), (2, 2);
    /// A port that can't be output to.
    ActionPort = (2, 4), (2, 4);
    /// A group that does not exist.
    ActionGroup = (2, 9), (2, 0);
    /// An argument outside its range.
    ActionArgument = (2, 5), (2, 5);
    /// An action on headers that the match does not promise.
    ActionInconsistent = (2, 10), (2, 5);
    /// An action whose length does not fit its type.
    ActionLength = (2, 1), (2, 1);
    /// A set-field of a field that it does not know, or of another length than the field has.
    SetLength = (2, 14), (2, 5);
    /// A set-field of a field that can't be set, or to a value outside the field's range.
    SetArgument = (2, 15), (2, 5);
    /// A set-field with a mask.
    SetMasked = (ErrorMsg::EXPERIMENTER, 4250), (2, 5);
    /// An instruction of unknown type.
    UnknownInstruction = (3, 0), (2, 0);
    /// An instruction of an experimenter that it does not know.
    InstructionExperimenter = (3, 5), (2, 0);
    /// An instruction whose length does not fit its type.
    InstructionLength = (3, 7), (2, 1);
    /// Two instructions of one type.
    DuplicateInstruction = (ErrorMsg::EXPERIMENTER, 2600), (2, 0);
    /// A goto-table that does not lead to a later table.
    GotoTable = (3, 2), (2, 0);
    /// A match of wrong type or length.
    MatchLength = (4, 1), (3, 5);
    /// A match on a value with bits outside its mask.
    MatchWildcards = (4, 5), (3, 5);
    /// A match on an unknown field, or with another length than the field has.
    MatchField = (4, 6), (3, 5);
    /// A match on a value outside the field's range.
    MatchValue = (4, 7), (3, 5);
    /// A mask on a field that can't be masked.
    MatchMask = (4, 8), (3, 5);
    /// A match on a field without its prerequisites.
    MatchPrerequisite = (4, 9), (3, 5);
    /// A field matched twice.
    MatchDuplicate = (4, 10), (3, 5);
    /// The table is full.
    TableFull = (5, 1), (3, 0);
    /// A table that it does not have.
    BadTable = (5, 2), (3, 5);
    /// A flow-mod command that does not exist.
    BadCommand = (5, 6), (3, 4);
    /// Flags of a flow-mod that do not exist.
    FlowModFlags = (5, 7), Refusal::NICIRA;
    /// Another rule of this priority overlaps, and the flow-mod asked to check.
    Overlap = (5, 3), (3, 1);
    /// A group of this number exists already.
    GroupExists = (6, 0), (1, 1);
    /// A group number or contents that are not allowed.
    InvalidGroup = (6, 1), (1, 1);
    /// A group that does not exist, in a group-mod.
    UnknownGroup = (6, 8), (1, 1);
    /// A group type that it does not have.
    GroupType = (6, 10), (1, 1);
    /// A group-mod command that does not exist.
    GroupCommand = (6, 11), (1, 1);
    /// A bucket that is not valid.
    GroupBucket = (6, 12), (1, 1);
    /// A watched port or group in a group that chooses no bucket.
    GroupWatch = (6, 6), (1, 1);
    /// A meter that does not exist.
    UnknownMeter = (12, 3), (1, 1);
    /// A meter of this number exists already.
    MeterExists = (12, 1), (1, 1);
    /// A meter number that is not allowed, or a rule's meter that does not exist.
    InvalidMeter = (12, 2), (1, 1);
    /// A meter-mod command that does not exist.
    MeterCommand = (12, 4), (1, 1);
    /// Flags of a meter that exclude each other or do not exist, or no unit.
    MeterFlags = (12, 5), (1, 1);
    /// A band without a rate.
    MeterRate = (12, 6), (1, 1);
    /// A kind of band that it does not have.
    MeterBand = (12, 8), (1, 1);
    /// More meters than it has room for.
    TooManyMeters = (12, 10), (1, 1);
    /// No bands, or more than a meter can have.
    BandCount = (12, 11), (1, 1);
    /// A queue that does not exist.
    UnknownQueue = (9, 1), (5, 1);
    /// A port that does not exist, in a query for queues.
    QueuePort = (9, 0), (5, 0);
    /// Table features that the tables can't be given.
    FixedTables = (13, 5), (1, 1);
    /// A table-mod for a table that it does not have.
    TableModTable = (8, 0), (1, 1);
    /// Flags of a configuration that do not exist.
    ConfigFlags = (10, 0), Refusal::NICIRA;
    /// A port-mod for a port that does not exist.
    PortModPort = (7, 0), (4, 0);
    /// A port-mod whose hardware address is not the port's.
    PortModAddress = (7, 1), (4, 1);
    /// A role that does not exist.
    BadRole = (11, 2), Refusal::NICIRA;
    /// A role request older than one that was already granted.
    StaleRole = (11, 0), (1, 1);
    /// A bundle that does not exist.
    UnknownBundle = (ErrorMsg::EXPERIMENTER, 2302), (1, 1);
    /// A bundle of this number exists already.
    BundleExists = (ErrorMsg::EXPERIMENTER, 2303), (1, 1);
    /// A message for a bundle that was closed.
    BundleClosed = (ErrorMsg::EXPERIMENTER, 2304), (1, 1);
    /// More bundles than a connection can have.
    OutOfBundles = (ErrorMsg::EXPERIMENTER, 2305), (1, 1);
    /// A request about bundles that does not exist.
    BundleType = (ErrorMsg::EXPERIMENTER, 2306), (1, 1);
    /// Other flags than those with which the bundle was opened.
    BundleFlags = (ErrorMsg::EXPERIMENTER, 2307), (1, 1);
    /// A message that can't be in a bundle.
    BundledMessage = (ErrorMsg::EXPERIMENTER, 2310), (1, 1);
    /// More messages than a bundle can have.
    TooManyBundled = (ErrorMsg::EXPERIMENTER, 2312), (1, 1);
    /// A message of the bundle was refused, so nothing was changed.
    BundledFailed = (ErrorMsg::EXPERIMENTER, 2313), (1, 1);
}

impl Refusal {
    /// Type and code of the 1.0 error whose data has those of Nicira's.
    pub const NICIRA: (u16, u16) = (ErrorMsg::NICIRA, 0);

    /// Returns type and code of Nicira's error for a reason without a number in 1.0. It is sent with
    /// [`Refusal::NICIRA`].
    pub fn nicira(self) -> Option<(u16, u16)> {
        match self {
            Refusal::BadInPort => Some((1, 0x202)),
            Refusal::BadRole => Some((1, 0x201)),
            Refusal::ConfigFlags => Some((1, 0x209)),
            Refusal::FlowModFlags => Some((3, 0x102)),
            _ => None,
        }
    }
}
