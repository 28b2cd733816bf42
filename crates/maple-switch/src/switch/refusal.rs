//! The reasons why a switch refuses a request, with their OpenFlow errors (1.0 §5.4.4, 1.3 §7.4.4).

use maple_wire::Version;

/// The reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No version in common.
    Incompatible,
    /// A message of another version than the one agreed on.
    BadVersion,
    /// A message type that a switch does not handle.
    BadType,
    /// A statistics or multipart type that it does not know.
    BadStats,
    /// An experimenter (vendor) that it does not know.
    BadExperimenter,
    /// A length that does not fit the contents.
    BadLength,
    /// A buffer that it does not hold.
    BufferUnknown,
    /// A table that it does not have, in a request other than a flow-mod.
    BadRequestTable,
    /// A slave connection may not change the switch.
    IsSlave,
    /// A packet-out's in_port that can't be one.
    BadInPort,
    /// An action type that it does not know.
    ActionType,
    /// An action of an experimenter that it does not know.
    ActionExperimenter,
    /// A port that can't be output to.
    ActionPort,
    /// A group that does not exist.
    ActionGroup,
    /// An argument outside its range.
    ActionArgument,
    /// An action on headers that the match does not promise.
    ActionInconsistent,
    /// An action whose length does not fit its type.
    ActionLength,
    /// A set-field of a field that it does not know, or of another length than the field has.
    SetLength,
    /// A set-field of a field that can't be set, or to a value outside the field's range.
    SetArgument,
    /// A set-field with a mask.
    SetMasked,
    /// An instruction of unknown type.
    UnknownInstruction,
    /// An instruction of an experimenter that it does not know.
    InstructionExperimenter,
    /// An instruction whose length does not fit its type.
    InstructionLength,
    /// Two instructions of one type.
    DuplicateInstruction,
    /// A goto-table that does not lead to a later table.
    GotoTable,
    /// A match of wrong type or length.
    MatchLength,
    /// A match on a value with bits outside its mask.
    MatchWildcards,
    /// A match on an unknown field, or with another length than the field has.
    MatchField,
    /// A match on a value outside the field's range.
    MatchValue,
    /// A mask on a field that can't be masked.
    MatchMask,
    /// A match on a field without its prerequisites.
    MatchPrerequisite,
    /// A field matched twice.
    MatchDuplicate,
    /// The table is full.
    TableFull,
    /// A table that it does not have.
    BadTable,
    /// A flow-mod command that does not exist.
    BadCommand,
    /// Flags of a flow-mod that do not exist.
    FlowModFlags,
    /// Another rule of this priority overlaps, and the flow-mod asked to check.
    Overlap,
    /// A group of this number exists already.
    GroupExists,
    /// A group number or contents that are not allowed.
    InvalidGroup,
    /// A group that does not exist, in a group-mod.
    UnknownGroup,
    /// A group type that it does not have.
    GroupType,
    /// A group-mod command that does not exist.
    GroupCommand,
    /// A bucket that is not valid.
    GroupBucket,
    /// A watched port or group in a group that chooses no bucket.
    GroupWatch,
    /// A meter that does not exist.
    UnknownMeter,
    /// A meter of this number exists already.
    MeterExists,
    /// A meter number that is not allowed, or a rule's meter that does not exist.
    InvalidMeter,
    /// A meter-mod command that does not exist.
    MeterCommand,
    /// Flags of a meter that exclude each other or do not exist, or no unit.
    MeterFlags,
    /// A band without a rate.
    MeterRate,
    /// A kind of band that it does not have.
    MeterBand,
    /// More meters than it has room for.
    TooManyMeters,
    /// No bands, or more than a meter can have.
    BandCount,
    /// A queue that does not exist.
    UnknownQueue,
    /// A port that does not exist, in a query for queues.
    QueuePort,
    /// Table features that the tables can't be given.
    FixedTables,
    /// A table-mod for a table that it does not have.
    TableModTable,
    /// Flags of a configuration that do not exist.
    ConfigFlags,
    /// A port-mod for a port that does not exist.
    PortModPort,
    /// A port-mod whose hardware address is not the port's.
    PortModAddress,
    /// A role that does not exist.
    BadRole,
    /// A role request older than one that was already granted.
    StaleRole,
    /// A bundle that does not exist.
    UnknownBundle,
    /// A bundle of this number exists already.
    BundleExists,
    /// A message for a bundle that was closed.
    BundleClosed,
    /// More bundles than a connection can have.
    OutOfBundles,
    /// A request about bundles that does not exist.
    BundleType,
    /// Other flags than those with which the bundle was opened.
    BundleFlags,
    /// A message that can't be in a bundle.
    BundledMessage,
    /// More messages than a bundle can have.
    TooManyBundled,
    /// A message of the bundle was refused, so nothing was changed.
    BundledFailed,
}

impl Refusal {
    /// Returns type and code of the error in this version's numbering.
    ///
    /// For a reason without a number in 1.0, it returns the nearest one that 1.0 has.
    pub fn number(self, version: Version) -> (u16, u16) {
        match version {
            Version::Of10 => self.number10(),
            Version::Of13 => self.number13(),
        }
    }

    fn number13(self) -> (u16, u16) {
        use Refusal::*;
        match self {
            Incompatible => (0, 0),
            BadVersion => (1, 0),
            BadType => (1, 1),
            BadStats => (1, 2),
            BadExperimenter => (1, 3),
            BadLength => (1, 6),
            BufferUnknown => (1, 8),
            BadRequestTable => (1, 9),
            IsSlave => (1, 10),
            BadInPort => (1, 11),
            ActionType => (2, 0),
            ActionLength => (2, 1),
            ActionExperimenter => (2, 2),
            ActionPort => (2, 4),
            ActionArgument => (2, 5),
            ActionGroup => (2, 9),
            ActionInconsistent => (2, 10),
            SetLength => (2, 14),
            SetArgument => (2, 15),
            SetMasked => (0xffff, 4250),
            UnknownInstruction => (3, 0),
            GotoTable => (3, 2),
            InstructionExperimenter => (3, 5),
            InstructionLength => (3, 7),
            DuplicateInstruction => (0xffff, 2600),
            MatchLength => (4, 1),
            MatchWildcards => (4, 5),
            MatchField => (4, 6),
            MatchValue => (4, 7),
            MatchMask => (4, 8),
            MatchPrerequisite => (4, 9),
            MatchDuplicate => (4, 10),
            TableFull => (5, 1),
            BadTable => (5, 2),
            Overlap => (5, 3),
            BadCommand => (5, 6),
            FlowModFlags => (5, 7),
            GroupExists => (6, 0),
            InvalidGroup => (6, 1),
            GroupWatch => (6, 6),
            UnknownGroup => (6, 8),
            GroupType => (6, 10),
            GroupCommand => (6, 11),
            GroupBucket => (6, 12),
            PortModPort => (7, 0),
            PortModAddress => (7, 1),
            TableModTable => (8, 0),
            ConfigFlags => (10, 0),
            StaleRole => (11, 0),
            BadRole => (11, 2),
            QueuePort => (9, 0),
            UnknownQueue => (9, 1),
            MeterExists => (12, 1),
            InvalidMeter => (12, 2),
            UnknownMeter => (12, 3),
            MeterCommand => (12, 4),
            MeterFlags => (12, 5),
            MeterRate => (12, 6),
            MeterBand => (12, 8),
            TooManyMeters => (12, 10),
            BandCount => (12, 11),
            FixedTables => (13, 5),
            UnknownBundle => (0xffff, 2302),
            BundleExists => (0xffff, 2303),
            BundleClosed => (0xffff, 2304),
            OutOfBundles => (0xffff, 2305),
            BundleType => (0xffff, 2306),
            BundleFlags => (0xffff, 2307),
            BundledMessage => (0xffff, 2310),
            TooManyBundled => (0xffff, 2312),
            BundledFailed => (0xffff, 2313),
        }
    }

    /// Returns type and code of Nicira's error for a reason without a number in 1.0. It is sent with
    /// [`Refusal::NICIRA`].
    pub fn nicira(self) -> Option<(u16, u16)> {
        match self {
            Refusal::BadInPort => Some((1, 0x202)),
            Refusal::ConfigFlags => Some((1, 0x209)),
            Refusal::FlowModFlags => Some((3, 0x102)),
            _ => None,
        }
    }

    /// Type and code of the 1.0 error whose data has those of Nicira's.
    pub const NICIRA: (u16, u16) = (0xb0c2, 0);

    fn number10(self) -> (u16, u16) {
        use Refusal::*;
        match self {
            BadInPort | ConfigFlags | FlowModFlags => Refusal::NICIRA,
            BadType => (1, 1),
            Incompatible => (0, 0),
            BadVersion => (1, 0),
            BadStats => (1, 2),
            BadExperimenter => (1, 3),
            BadLength => (1, 6),
            BufferUnknown => (1, 8),
            ActionType
            | ActionGroup
            | UnknownInstruction
            | InstructionExperimenter
            | DuplicateInstruction
            | GotoTable => (2, 0),
            ActionLength | InstructionLength => (2, 1),
            ActionExperimenter => (2, 2),
            ActionPort => (2, 4),
            ActionArgument | ActionInconsistent | SetLength | SetArgument | SetMasked => (2, 5),
            TableFull => (3, 0),
            Overlap => (3, 1),
            BadCommand => (3, 4),
            BadTable | MatchLength | MatchWildcards | MatchField | MatchValue | MatchMask | MatchPrerequisite
            | MatchDuplicate => (3, 5),
            PortModPort => (4, 0),
            PortModAddress => (4, 1),
            QueuePort => (5, 0),
            UnknownQueue => (5, 1),
            IsSlave => (1, 5),
            BadRequestTable | GroupExists | InvalidGroup | UnknownGroup | GroupType | GroupCommand | GroupBucket
            | GroupWatch | UnknownMeter | MeterExists | InvalidMeter | MeterCommand | MeterFlags | MeterRate
            | MeterBand | TooManyMeters | BandCount | FixedTables | TableModTable | BadRole | StaleRole
            | UnknownBundle | BundleExists | BundleClosed | OutOfBundles | BundleType | BundleFlags
            | BundledMessage | TooManyBundled | BundledFailed => (1, 1),
        }
    }
}
