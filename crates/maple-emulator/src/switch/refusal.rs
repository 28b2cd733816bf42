//! Why a switch refuses a request, with the OpenFlow error (1.0 §5.4.4, 1.3 §7.4.4).

use maple_wire::Version;

/// Why a request was refused.
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
    /// A header to be pushed with an Ethernet type that does not name such a header.
    ActionTag,
    /// A set-field of a field that can't be set.
    SetType,
    /// A set-field whose value is outside the field's range.
    SetArgument,
    /// An instruction of unknown type.
    UnknownInstruction,
    /// A goto-table that does not lead to a later table.
    GotoTable,
    /// A match on an unknown field.
    MatchField,
    /// A match on a value outside the field's range.
    MatchValue,
    /// A mask on a field that can't be masked.
    MatchMask,
    /// A match on a field without the fields that it presupposes.
    MatchPrerequisite,
    /// A field matched twice.
    MatchDuplicate,
    /// The table is full.
    TableFull,
    /// A table that it does not have.
    BadTable,
    /// A flow-mod command, or another value in it, that does not exist.
    BadCommand,
    /// Another rule of this priority overlaps, and the flow-mod asked to check.
    Overlap,
    /// A group of this number exists already.
    GroupExists,
    /// A group number or contents that are not allowed.
    InvalidGroup,
    /// Groups in groups.
    GroupChaining,
    /// A group that does not exist, in a group-mod.
    UnknownGroup,
    /// A group type that it does not have.
    GroupType,
    /// A group-mod command that does not exist.
    GroupCommand,
    /// A bucket that is not valid.
    GroupBucket,
    /// A meter that does not exist.
    UnknownMeter,
    /// A meter of this number exists already.
    MeterExists,
    /// A meter number that is not allowed, or a rule's meter that does not exist.
    InvalidMeter,
    /// A meter-mod command that does not exist.
    MeterCommand,
    /// Flags of a meter that exclude each other or do not exist.
    MeterFlags,
    /// A band without a rate.
    MeterRate,
    /// A band whose burst lets nothing pass.
    MeterBurst,
    /// A kind of band that it does not have.
    MeterBand,
    /// More bands than a meter can have.
    TooManyBands,
    /// A queue that does not exist.
    UnknownQueue,
    /// A port that does not exist, in a question about queues.
    QueuePort,
    /// Table features that the tables can't be given.
    FixedTables,
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
    /// Type and code of the error in this version's numbering.
    ///
    /// What 1.0 has no number for is said by the nearest one that it has.
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
            ActionExperimenter => (2, 2),
            ActionPort => (2, 4),
            ActionArgument => (2, 5),
            ActionGroup => (2, 9),
            ActionInconsistent => (2, 10),
            ActionTag => (2, 12),
            SetType => (2, 13),
            SetArgument => (2, 15),
            UnknownInstruction => (3, 0),
            GotoTable => (3, 2),
            MatchField => (4, 6),
            MatchValue => (4, 7),
            MatchMask => (4, 8),
            MatchPrerequisite => (4, 9),
            MatchDuplicate => (4, 10),
            TableFull => (5, 1),
            BadTable => (5, 2),
            Overlap => (5, 3),
            BadCommand => (5, 5),
            GroupExists => (6, 0),
            InvalidGroup => (6, 1),
            GroupChaining => (6, 5),
            UnknownGroup => (6, 8),
            GroupType => (6, 10),
            GroupCommand => (6, 11),
            GroupBucket => (6, 12),
            PortModPort => (7, 0),
            PortModAddress => (7, 1),
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
            MeterBurst => (12, 7),
            MeterBand => (12, 8),
            TooManyBands => (12, 11),
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

    fn number10(self) -> (u16, u16) {
        use Refusal::*;
        match self {
            Incompatible => (0, 0),
            BadVersion => (1, 0),
            BadStats => (1, 2),
            BadExperimenter => (1, 3),
            BadLength => (1, 6),
            BufferUnknown => (1, 8),
            ActionType | SetType | ActionGroup | UnknownInstruction | GotoTable => (2, 0),
            ActionExperimenter => (2, 2),
            ActionPort | BadInPort => (2, 4),
            ActionArgument | ActionInconsistent | ActionTag | SetArgument => (2, 5),
            TableFull => (3, 0),
            Overlap => (3, 1),
            BadCommand => (3, 4),
            BadTable | MatchField | MatchValue | MatchMask | MatchPrerequisite | MatchDuplicate => (3, 5),
            PortModPort => (4, 0),
            PortModAddress => (4, 1),
            QueuePort => (5, 0),
            UnknownQueue => (5, 1),
            IsSlave => (1, 5),
            BadType | BadRequestTable | GroupExists | InvalidGroup | GroupChaining | UnknownGroup | GroupType
            | GroupCommand | GroupBucket | UnknownMeter | MeterExists | InvalidMeter | MeterCommand | MeterFlags
            | MeterRate | MeterBurst | MeterBand | TooManyBands | FixedTables | BadRole | StaleRole | UnknownBundle
            | BundleExists | BundleClosed | OutOfBundles | BundleType | BundleFlags | BundledMessage
            | TooManyBundled | BundledFailed => (1, 1),
        }
    }
}
