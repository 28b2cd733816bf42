//! Faults that are planted, each of which random schedules must find.

/// A planted fault: of the store, with how members use what is reported to them, or with switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plant {
    /// All masters have generation 0, as in some controllers.
    OneGeneration,
    /// A member counts generations by itself, from those that it knows.
    OwnGenerations,
    /// A member changes switches as soon as it is master by the store, without having asked them.
    AsksNoSwitch,
    /// A member asks to be equal before it changes a switch.
    AsksToBeEqual,
    /// Writing a key overwrites one that is not as it was expected, under its revision.
    WritesWithoutComparing,
    /// Keys stay when their member is gone.
    LeasesNeverEnd,
    /// Watches report no deletion.
    DeletionsAreNotReported,
    /// A key that is created after a deletion has the revision of the deletion.
    DeletionsHaveNoRevision,
    /// A watch from before a compaction goes on as if nothing had been there.
    CompactionIsSilent,
    /// A member that lost its connection goes on as master on the next one.
    KeepsMasteryOverConnections,
    /// Batches of the tracked state take effect whoever is master.
    BatchesOfFormerMasters,
    /// Batches of the tracked state take effect whatever was written before them.
    BatchesInAnyOrder,
    /// Members take a write for confirmed when they send it.
    ConfirmsAtOnce,
    /// A new master leads before it has what was written.
    LeadsWithoutReading,
    /// A member keeps writes that were given up.
    KeepsWhatIsLost,
    /// The changes of a member's rows are reported one after the other.
    AppliesInParts,
}
