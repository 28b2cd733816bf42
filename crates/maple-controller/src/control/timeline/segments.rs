//! The segments of the timeline: which there are, and what of them waits to be written. Nothing here touches a disk.
//!
//! A segment is a whole network, and what happened after that. What is not in its file yet stays in memory, and the
//! last segment stays whole in memory, as blocks that readers share. A segment that has ended stays there until the
//! disk says that it would outlive a loss of power. So there are two bounds: on all bytes, and on those that wait. The
//! oldest segments give way, but short runs go first: a controller that starts again and again writes a whole network
//! each time, and that must not cost the day before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::entry::{Begin, Entry, Milliseconds, Pause, Stamped};
use super::segment_format::{MAGIC, encode};

/// The size from which on another segment begins, in bytes, without its network; at least twice the size of that.
/// Chosen: a segment is read as a whole for an answer, and what is given up is small.
const SEGMENT: usize = 256 << 10;
/// The age at which another segment begins, in milliseconds, for each [`NETWORK`] bytes that its network takes.
const SEGMENT_AGE: u64 = 2 * 3_600_000;
/// The size of a network, in bytes, that lengthens the age of a segment by [`SEGMENT_AGE`]. Chosen: each segment begins
/// with the whole network, so a large one is written less often.
const NETWORK: usize = 256 << 10;
/// The time for which segments are kept, in milliseconds: a day, as docs/page.md promises.
const KEPT: u64 = 24 * 3_600_000;
/// The number of damaged files up to which they are left in place. Chosen: people can look at them, and a disk that
/// damages files all the time is not filled.
const UNREADABLE: usize = 64;
/// The length of a run, in milliseconds, up to which it gives way before longer ones. Chosen: a controller that crashes
/// again and again must not push out the day before.
const SHORT_RUN: u64 = 600_000;

/// The bounds of all segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentBounds {
    /// The bytes of all segments.
    pub all: usize,
    /// The bytes that wait to be written.
    pub waiting: usize,
    /// The number of segments.
    pub count: usize,
}

/// A part of a segment's bytes: [`MAGIC`], or one entry.
pub(super) type Block = Arc<[u8]>;

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub number: u32,
    pub began: u64,
    /// The time up to which it says what was.
    pub ended: u64,
    /// The reason why it does not go on where the one before ended; `None` if it does.
    pub after: Option<Pause>,
    pub size: usize,
    /// The bytes at the end of its file that can't be read.
    unused: usize,
    /// The bytes of the network at its beginning.
    network: usize,
    /// Its bytes, unless all of them are in its file.
    pub blocks: Option<Vec<Block>>,
    /// The blocks and bytes of the segment that are in its file, and the time of the last entry there.
    written: Written,
    /// The damage at its end, if there is any: what came after `ended` can't be read.
    pub damage: Option<String>,
}

/// The part of a segment that is in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub blocks: usize,
    pub bytes: usize,
    /// The time up to which the file says what was.
    pub until: u64,
    /// Whether the segment has ended, and a loss of power costs nothing of it.
    pub is_safe: bool,
}

/// A file that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub why: String,
    pub kind: UnreadableKind,
    /// The bytes of the file, or more; zero if nobody knows.
    pub size: usize,
}

/// The kind of a file that is not used. It says when the file is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnreadableKind {
    /// A file that was read, and is damaged; or one that is gone, deleted with what is as old, or for want of room.
    Damaged,
    /// The system refused to read it: deleted with what is as old.
    Refused,
    /// A file of another program or format, which is never deleted.
    Foreign,
}

/// A task of the disk: to write, or to delete.
#[derive(Debug)]
pub(super) enum Work {
    /// Append these blocks at this place of a segment's file. None, if it is only to be made safe.
    Append {
        number: u32,
        at: usize,
        blocks: Vec<Block>,
        then: Written,
    },
    Delete {
        number: u32,
    },
}

/// All segments, oldest first. The last one grows.
#[derive(Debug)]
pub(super) struct Segments {
    /// Whether there are files.
    in_files: bool,
    bounds: SegmentBounds,
    pub all: VecDeque<Segment>,
    next: u32,
    /// The files that are not used, by number. They are left in place.
    pub unreadable: BTreeMap<u32, Unreadable>,
    /// The segments before which something is missing because the disk refused it.
    pub refused: Vec<u32>,
    deleted: Vec<u32>,
}

/// A segment that an earlier run has written.
pub(super) struct EarlierSegment {
    pub number: u32,
    pub began: u64,
    /// The pause before it, if there was one.
    pub after: Option<Pause>,
    pub ended: u64,
    /// The number of bytes of its file that it has, from the first on.
    pub size: usize,
    /// The number of bytes after these.
    pub unused: usize,
    /// The damage to its file.
    pub damage: Option<String>,
}

impl Segments {
    /// Creates a timeline without segments.
    pub fn new(in_files: bool, bounds: SegmentBounds) -> Segments {
        let (all, unreadable, refused, deleted) = (VecDeque::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Segments { in_files, bounds, all, next: 1, unreadable, refused, deleted }
    }

    /// Adds the segment of an earlier run. Numbers ascend.
    pub fn add(&mut self, earlier: EarlierSegment) {
        let EarlierSegment { number, began, after, ended, size, unused, damage } = earlier;
        let written = Written { blocks: 0, bytes: size, until: ended, is_safe: true };
        self.next = number.saturating_add(1);
        let (network, blocks) = (0, None);
        self.all.push_back(Segment { number, began, ended, after, size, unused, network, blocks, written, damage });
    }

    /// Notes that the next segment goes on where this one ended, which had this number of bytes then.
    pub fn check_end(&mut self, number: u32, bytes: u64) {
        if let Some(last) = self.all.back_mut().filter(|last| last.number == number && last.size as u64 != bytes) {
            last.damage.get_or_insert_with(|| "its end is missing: it was lost, or the disk refused it".to_owned());
        }
    }

    /// Notes a file that can't be read, and that has about this number of bytes.
    pub fn add_unreadable(&mut self, number: u32, kind: UnreadableKind, size: usize, why: String) {
        self.next = number.saturating_add(1);
        self.unreadable.insert(number, Unreadable { why, kind, size });
    }

    /// Notes that a segment's file can't be read any more, or is gone.
    pub fn lose(&mut self, number: u32, why: &str) {
        let at = self.all.iter().position(|one| one.number == number && one.blocks.is_none());
        if let Some(lost) = at.and_then(|at| self.all.remove(at)) {
            let (why, kind, size) = (why.to_owned(), UnreadableKind::Damaged, lost.size + lost.unused);
            self.unreadable.insert(number, Unreadable { why, kind, size });
        }
    }

    /// Reports whether another segment is to begin.
    pub fn is_full(&self, now: Milliseconds) -> bool {
        self.all.back().is_none_or(|last| {
            let age = SEGMENT_AGE * (1 + (last.network / NETWORK) as u64);
            last.size - last.network > SEGMENT.max(2 * last.network) || now.saturating_sub(last.began) > age
        })
    }

    /// Begins a segment.
    pub fn begin(&mut self, time: Milliseconds, begin: Begin) {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let after = begin.after;
        let (magic, network): (Block, Block) =
            (MAGIC.into(), encode(&Stamped { time, entry: Entry::Begin(Box::new(begin)) }).into());
        let size = magic.len() + network.len();
        let (blocks, written) = (Some(vec![magic, network]), Written::default());
        let (began, ended, network, unused) = (time, time, size, 0);
        self.all.push_back(Segment {
            number,
            began,
            ended,
            after,
            size,
            unused,
            network,
            blocks,
            written,
            damage: None,
        });
    }

    /// Appends an entry to the last segment.
    pub fn append(&mut self, entry: &Stamped) {
        let Some(Segment { ended, size, blocks: Some(blocks), .. }) = self.all.back_mut() else { return };
        let block: Block = encode(entry).into();
        (*ended, *size) = ((*ended).max(entry.time), *size + block.len());
        blocks.push(block);
    }

    /// Notes that nothing else has happened until this time.
    pub fn extend(&mut self, time: Milliseconds) {
        if let Some(last) = self.all.back_mut() {
            last.ended = last.ended.max(time);
        }
    }

    /// Returns what is to be done on the disk. `is_last`: nothing will be appended to the last segment any more.
    pub fn work(&mut self, is_last: bool) -> Vec<Work> {
        let mut all: Vec<Work> = self.deleted.drain(..).map(|number| Work::Delete { number }).collect();
        let growing = if is_last { None } else { self.all.back().map(|last| last.number) };
        for Segment { number, ended, size, blocks, written, .. } in &self.all {
            let Some(blocks) = blocks else { continue };
            let has_ended = Some(*number) != growing;
            if written.bytes < *size || has_ended && !written.is_safe {
                let then = Written { blocks: blocks.len(), bytes: *size, until: *ended, is_safe: has_ended };
                let (number, at, blocks) = (*number, written.bytes, blocks[written.blocks..].to_vec());
                all.push(Work::Append { number, at, blocks, then });
            }
        }
        all
    }

    /// Notes what has been written of a segment; nothing, if its file is gone.
    pub fn wrote(&mut self, number: u32, then: Written) {
        // What waits may have been given up meanwhile.
        if let Some(segment) = self.all.iter_mut().find(|one| one.number == number && one.blocks.is_some()) {
            segment.written = then;
        }
        self.release();
    }

    /// Notes that a file could not be deleted: it is tried again.
    pub fn not_deleted(&mut self, number: u32) {
        self.deleted.push(number);
    }

    /// Gives up the blocks of segments that are safe in their files, except for the last one, which grows.
    fn release(&mut self) {
        let count = self.all.len().saturating_sub(1);
        let is_safe = |one: &&mut Segment| one.written.is_safe && one.written.bytes == one.size;
        for segment in self.all.iter_mut().take(count).filter(is_safe) {
            segment.blocks = None;
        }
    }

    /// Gives up segments that are too old, or exceed the bounds.
    pub fn trim(&mut self, now: u64) {
        while self.all.len() > 1 && self.all[1].began + KEPT < now {
            self.remove(0);
            let first = self.all[0].number;
            self.delete_unreadable(|number, kind| number < first && kind != UnreadableKind::Foreign);
        }
        let count = self.unreadable.values().filter(|one| one.kind == UnreadableKind::Damaged).count();
        let mut beyond = count.saturating_sub(UNREADABLE);
        self.delete_unreadable(|_, kind| {
            let goes = beyond > 0 && kind == UnreadableKind::Damaged;
            beyond -= usize::from(goes);
            goes
        });
        // What is of no use goes first.
        while self.size().0 > self.bounds.all && self.delete_damaged() {}
        while self.all.len() > 1 && (self.size().0 > self.bounds.all || self.all.len() > self.bounds.count) {
            self.remove(self.least_worth());
        }
        while self.in_files && self.waiting() > self.bounds.waiting && self.drop_waiting() {}
    }

    /// Returns the place of the segment to give up: the oldest of a short run, or else the oldest.
    fn least_worth(&self) -> usize {
        let is_short = |at: &usize| {
            let (one, next) = (&self.all[*at], &self.all[at + 1]);
            one.after.is_some() && next.after.is_some() && one.ended - one.began < SHORT_RUN
        };
        (1..self.all.len() - 1).find(is_short).unwrap_or_default()
    }

    /// Returns how many bytes wait to be written.
    fn waiting(&self) -> usize {
        self.all.iter().map(|one| one.size - one.written.bytes).sum()
    }

    /// Gives up what waits of the oldest segment that is not the last. Returns false if there is none.
    fn drop_waiting(&mut self) -> bool {
        let count = self.all.len().saturating_sub(1);
        let Some(at) = self.all.iter().take(count).position(|one| one.written.bytes < one.size) else { return false };
        self.refused.retain(|number| self.all.iter().any(|one| one.number == *number));
        self.refused.push(self.all[at + 1].number);
        let segment = &mut self.all[at];
        if segment.written.blocks < 2 {
            // There is no network in its file.
            self.remove(at);
        } else {
            (segment.size, segment.ended, segment.blocks) = (segment.written.bytes, segment.written.until, None);
        }
        true
    }

    /// Deletes files that are not used, the oldest first.
    fn delete_unreadable(&mut self, mut goes: impl FnMut(u32, UnreadableKind) -> bool) {
        let deleted = &mut self.deleted;
        self.unreadable.retain(|number, one| {
            let is_gone = goes(*number, one.kind);
            deleted.extend(is_gone.then_some(*number));
            !is_gone
        });
    }

    /// Deletes the oldest damaged file. Returns false if there is none.
    fn delete_damaged(&mut self) -> bool {
        let first = self.unreadable.iter().find(|(_, one)| one.kind == UnreadableKind::Damaged);
        let first = first.map(|(number, _)| *number);
        self.delete_unreadable(|number, _| Some(number) == first);
        first.is_some()
    }

    fn remove(&mut self, at: usize) {
        if let Some(gone) = self.all.remove(at)
            && self.in_files
        {
            self.deleted.push(gone.number);
        }
    }

    /// Returns the bytes of all segments and damaged files, and the maximum that they may take. Files that are never
    /// deleted for want of room don't count.
    pub fn size(&self) -> (usize, usize) {
        let segments: usize = self.all.iter().map(|one| one.size + one.unused).sum();
        let damaged = self.unreadable.values().filter(|one| one.kind == UnreadableKind::Damaged);
        (segments + damaged.map(|one| one.size).sum::<usize>(), self.bounds.all)
    }

    /// Reports whether there are files.
    pub fn in_files(&self) -> bool {
        self.in_files
    }
}
