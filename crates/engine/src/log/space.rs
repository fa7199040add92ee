//! Space on a host's storage: the segment that is written, what is taken of the file system ahead of its end,
//! and a reserve for the next checkpoint.
//!
//! ```text
//! log-N      | head | frames ... end |  taken ahead: zeros  |
//! reserve    | zeros: as much as the images of the next checkpoint will need beside those of the last one |
//! ```
//!
//! Invariants:
//! 1. Bytes that [`LogRoom`] counts as room are taken of the file system, for this segment, before they are
//!    counted.
//! 2. A new segment begins with as much space ahead as the one before had left, or does not begin: the one
//!    before goes on then.
//! 3. The log takes no space while its reserve is not whole, and nobody commits more: a checkpoint could not
//!    be written any more, and nothing would ever go. While a checkpoint uses the reserve it takes none but
//!    for marks, without which no checkpoint ends.
//! 4. A file system that takes no space in advance promises nothing; there a write finds out.
//!
//! Not here: what the frames are and which epochs they close (ship.rs), who takes checkpoints.

use std::sync::Arc;

use crate::files::segment_name;
use liger_fabric::disk::{Disk, DiskError, DiskErrorKind, DiskFile};
use liger_fabric::{Cx, Fabric};

use super::room::{LogRoom, RoomOptions};
use super::segment::SegmentHead;

/// The file that holds the space of the next checkpoint.
pub const RESERVE: &str = "reserve";

/// The segment that is written, and the space ahead of it.
pub(super) struct Space {
    disk: Disk,
    options: RoomOptions,
    room: Arc<LogRoom>,
    file: DiskFile,
    /// End of what was written.
    end: u64,
    /// End of what is taken; `end`, if that is more.
    taken: u64,
    /// The file system takes nothing in advance.
    endless: bool,
    reserve: Option<DiskFile>,
    reserved: u64,
    /// A checkpoint uses the reserve.
    cleaning: bool,
    /// Nothing could be taken, and somebody wanted it.
    full: Option<DiskError>,
    retry_at_ns: u64,
    /// When the reserve is looked at again.
    look_at_ns: u64,
}

impl Space {
    /// Starts a segment; `goes_on`: with some space ahead, if there is any. Where there is no room the
    /// reserve of the last incarnation gives some: it is made anew later.
    ///
    /// # Errors
    /// If the disk fails, or has no room for the segment's head.
    pub(super) fn start<F: Fabric>(
        cx: &Cx<F>,
        disk: &Disk,
        head: &SegmentHead,
        options: RoomOptions,
        room: Arc<LogRoom>,
        goes_on: bool,
    ) -> Result<Self, DiskError> {
        let (file, end) = match start_segment(cx, disk, head, 0) {
            Err(error) if error.kind == DiskErrorKind::Full && give_up_reserve(cx, disk)? => {
                start_segment(cx, disk, head, 0)?
            }
            started => started?,
        };
        let mut space = Self {
            disk: disk.clone(),
            options,
            room,
            file,
            end,
            taken: end,
            endless: false,
            reserve: None,
            reserved: 0,
            cleaning: false,
            full: None,
            retry_at_ns: 0,
            look_at_ns: 0,
        };
        if goes_on {
            space.take_first(cx)?;
        }
        Ok(space)
    }

    /// Takes what the log begins with, or at least what is kept for those who need it most.
    fn take_first<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), DiskError> {
        let kept = self.options.kept_bytes();
        let mut taken = self.take_ahead(cx, kept + self.options.chunk_bytes);
        if is_full(&taken) {
            taken = self.take_ahead(cx, kept);
        }
        if is_full(&taken) && give_up_reserve(cx, &self.disk)? {
            taken = self.take_ahead(cx, kept);
        }
        match taken {
            Err(error) if error.kind == DiskErrorKind::Full => Ok(()),
            Err(error) if error.kind == DiskErrorKind::Unsupported => {
                self.promise_nothing();
                Ok(())
            }
            taken => taken,
        }
    }

    /// End of what was written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Writes behind the end.
    ///
    /// # Errors
    /// If the disk fails, or is full where it has promised nothing: the end is what it was, and the same
    /// bytes may be written again.
    pub(super) fn write<F: Fabric>(&mut self, cx: &Cx<F>, bytes: &[u8]) -> Result<(), DiskError> {
        debug_assert!(self.end <= self.taken, "{} bytes are taken, the end is {}", self.taken, self.end);
        self.file.write_at(cx, self.end, bytes)?;
        self.end += bytes.len() as u64;
        self.taken = self.taken.max(self.end);
        Ok(())
    }

    /// Syncs what was written.
    ///
    /// # Errors
    /// If that fails: nothing is known of the segment any more.
    pub(super) fn sync<F: Fabric>(&self, cx: &Cx<F>) -> Result<(), DiskError> {
        self.file.sync(cx)
    }

    /// Begins the next segment, behind one that is synced to its end, with as much space ahead as that had
    /// left, or more; false if there is no room for it. On storage that is full, what the present one has
    /// ahead is given back before, if nobody was promised any of it: the reserve comes first, so the next one
    /// has no more.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn next<F: Fabric>(&mut self, cx: &Cx<F>, head: &SegmentHead) -> Result<bool, DiskError> {
        assert_eq!(head.previous_end, self.end, "a segment knows where the one before it ends");
        let (ahead, least) = (self.taken - self.end, self.options.kept_bytes() + self.options.chunk_bytes);
        if self.full.is_none() && !self.cleaning {
            let wanted = if self.endless { 0 } else { ahead.max(least) };
            let started = start_segment(cx, &self.disk, head, wanted);
            if !is_full(&started) {
                return self.go_on_in(cx, started?, wanted, ahead);
            }
        }
        if self.room.withdraw(ahead) {
            self.give_back(cx)?;
            let given = ahead.min(least);
            // The head takes some, and others may have been quicker.
            for part in [given, given / 2, 0] {
                let started = start_segment(cx, &self.disk, head, part);
                if !is_full(&started) {
                    return self.go_on_in(cx, started?, part, 0);
                }
            }
        }
        Ok(false)
    }

    fn go_on_in<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        (file, end): (DiskFile, u64),
        ahead: u64,
        before: u64,
    ) -> Result<bool, DiskError> {
        assert!(self.endless || ahead >= before, "{ahead} bytes are ahead, the segment before had {before}");
        self.file.truncate(cx, self.end)?;
        self.room.add(ahead as i64 - if self.endless { 0 } else { before as i64 });
        (self.file, self.end, self.taken) = (file, end, end + ahead);
        Ok(true)
    }

    /// Gives back what is taken ahead: nothing comes any more.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn give_back<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), DiskError> {
        self.taken = self.end;
        self.file.truncate(cx, self.end)
    }

    /// Takes space if somebody waits for it, or soon will, or if there was none, and makes the reserve larger
    /// as the pod logs more: `logged` says how many bytes that were so far. Nothing is taken unless
    /// `may_take`, but for marks: the checkpoint of another host needs what there is.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn make<F: Fabric>(
        &mut self,
        cx: &Cx<F>,
        logged: impl FnOnce() -> u64,
        may_take: bool,
    ) -> Result<(), DiskError> {
        debug_assert!(!self.endless || self.full.is_none(), "what promises nothing is never full");
        let (lacks, low, now_ns) = (self.room.take_lack(), self.options.chunk_bytes / 2, cx.now_ns());
        if self.endless {
            return Ok(());
        }
        if self.cleaning || !may_take {
            return self.make_for_marks(cx, now_ns);
        }
        let missing = (lacks.max(low) as i64 - self.room.free()).max(0) as u64;
        let is_time = match self.full {
            Some(_) => now_ns >= self.retry_at_ns,
            None if lacks > 0 => true,
            None => now_ns >= self.retry_at_ns.max(if missing > 0 { 0 } else { self.look_at_ns }),
        };
        if !is_time {
            return Ok(());
        }
        self.look_at_ns = now_ns + self.options.retry_ns / 8;
        let target = self.room.reserve_bytes(logged());
        let mut taken = self.take_for_marks(cx).and_then(|()| self.reserve(cx, target)).and_then(|()| {
            let most = missing.next_multiple_of(self.options.chunk_bytes);
            let taken = self.take_ahead(cx, most);
            // Perhaps there is room for those who wait.
            if lacks > 0 && is_full(&taken) { self.take_ahead(cx, missing) } else { taken }
        });
        if taken.as_ref().is_err_and(|error| error.kind == DiskErrorKind::Unsupported) {
            self.promise_nothing();
            taken = Ok(());
        }
        match taken {
            Ok(()) => self.full = None,
            Err(error) if error.kind == DiskErrorKind::Full => {
                self.retry_at_ns = now_ns + self.options.retry_ns;
                // Without a reserve that is whole nothing more may come: not even what there is space for.
                if lacks > 0 || self.full.is_some() || self.reserved < target {
                    self.full = Some(error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// While a checkpoint, here or elsewhere, uses what there is: it ends only when an epoch is durable, and
    /// a long one may need more marks than there was space for when it began.
    fn make_for_marks<F: Fabric>(&mut self, cx: &Cx<F>, now_ns: u64) -> Result<(), DiskError> {
        if now_ns < self.retry_at_ns || cx.sabotaged("space.marks-beside-checkpoints") {
            return Ok(());
        }
        let taken = self.take_for_marks(cx);
        if is_full(&taken) {
            self.retry_at_ns = now_ns + self.options.retry_ns;
            return Ok(());
        }
        taken
    }

    /// Marks come before everything else: without them nothing becomes durable, no checkpoint either.
    fn take_for_marks<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<(), DiskError> {
        let left = self.room.free() + self.options.kept_bytes() as i64;
        let short = self.options.marks_bytes as i64 - left;
        if short > 0 { self.take_ahead(cx, short as u64) } else { Ok(()) }
    }

    fn reserve<F: Fabric>(&mut self, cx: &Cx<F>, target: u64) -> Result<(), DiskError> {
        assert!(!self.cleaning, "a checkpoint has the reserve");
        if self.reserved < target {
            let file = match self.reserve.take() {
                Some(file) => file,
                None => {
                    // What the last incarnation has left is of use, also if there is no room for more.
                    let file = open_or_create(cx, &self.disk, RESERVE)?;
                    self.reserved = file.len(cx)?;
                    file
                }
            };
            let taken = if self.reserved < target { file.preallocate(cx, target) } else { Ok(()) };
            self.reserve = Some(file);
            taken?;
            self.reserved = self.reserved.max(target);
        }
        Ok(())
    }

    fn take_ahead<F: Fabric>(&mut self, cx: &Cx<F>, ahead: u64) -> Result<(), DiskError> {
        assert!(!self.endless, "a file system that takes nothing in advance is asked no more");
        if ahead > 0 {
            self.file.preallocate(cx, self.taken + ahead)?;
            self.taken += ahead;
            self.room.add(ahead as i64);
        }
        Ok(())
    }

    fn promise_nothing(&mut self) {
        (self.endless, self.full) = (true, None);
        self.room.set_endless();
    }

    /// What the file system said when nothing could be taken, while that is so.
    pub(super) fn full(&self) -> Option<&DiskError> {
        self.full.as_ref()
    }

    /// True while a checkpoint uses the reserve.
    pub(super) fn is_cleaning(&self) -> bool {
        self.cleaning
    }

    /// Gives the reserve to a checkpoint that found no room; false if there is none. Until
    /// [`Space::end_cleaning`], the log takes no space.
    ///
    /// # Errors
    /// If the disk fails.
    pub(super) fn begin_cleaning<F: Fabric>(&mut self, cx: &Cx<F>) -> Result<bool, DiskError> {
        assert!(!self.cleaning || self.reserved == 0, "a checkpoint that uses the reserve has all of it");
        if cx.sabotaged("space.use-reserve") {
            return Ok(false);
        }
        let Some(file) = self.reserve.take().filter(|_| self.reserved > 0) else { return Ok(false) };
        file.truncate(cx, 0)?;
        (self.reserve, self.reserved, self.cleaning) = (Some(file), 0, true);
        Ok(true)
    }

    /// The checkpoint counts, or was given up.
    pub(super) fn end_cleaning(&mut self) {
        assert!(self.cleaning && self.reserved == 0, "the log takes a reserve again when a checkpoint ends");
        (self.cleaning, self.retry_at_ns) = (false, 0);
    }

    /// Space may have come back: it is looked for at once.
    pub(super) fn look_again(&mut self) {
        self.retry_at_ns = 0;
    }
}

fn is_full<T>(result: &Result<T, DiskError>) -> bool {
    result.as_ref().is_err_and(|error| error.kind == DiskErrorKind::Full)
}

/// Makes a segment that has its head, some space ahead, and a durable name. Where there is no room for it
/// nothing of it stays: whoever tries again and again would leave a file each time.
fn start_segment<F: Fabric>(
    cx: &Cx<F>,
    disk: &Disk,
    head: &SegmentHead,
    ahead: u64,
) -> Result<(DiskFile, u64), DiskError> {
    assert!(head.number > 0, "segments count from 1");
    let (name, bytes) = (segment_name(head.number), head.encode());
    let file = match disk.create(cx, &name) {
        // What an earlier try has left.
        Err(error) if error.kind == DiskErrorKind::Exists => {
            disk.remove(cx, &name)?;
            disk.create(cx, &name)?
        }
        made => made?,
    };
    let end = bytes.len() as u64;
    let prepared = if ahead > 0 { file.preallocate(cx, end + ahead) } else { Ok(()) };
    let written = prepared.and_then(|()| file.write_at(cx, 0, &bytes)).and_then(|()| file.sync(cx));
    if is_full(&written) && !cx.sabotaged("space.leave-segments") {
        disk.remove(cx, &name)?;
    }
    written?;
    disk.sync_names(cx)?;
    Ok((file, end))
}

/// Removes the reserve, which nobody has opened; false if there is none.
pub(super) fn give_up_reserve<F: Fabric>(cx: &Cx<F>, disk: &Disk) -> Result<bool, DiskError> {
    match disk.remove(cx, RESERVE) {
        Err(error) if error.kind == DiskErrorKind::Missing => Ok(false),
        removed => removed.map(|()| true),
    }
}

fn open_or_create<F: Fabric>(cx: &Cx<F>, disk: &Disk, name: &str) -> Result<DiskFile, DiskError> {
    match disk.open(cx, name) {
        Err(error) if error.kind == DiskErrorKind::Missing => disk.create(cx, name),
        opened => opened,
    }
}
