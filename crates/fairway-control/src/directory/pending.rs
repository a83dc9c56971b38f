//! Decides when a touched file is read. Pure: events and the time go in, due reads come out.
//!
//! ```text
//!   renamed into place, closed after writing ──────────────► now
//!   created, written to ── no further write for SETTLE ────► now     (at the latest after PATIENCE)
//!   removed, renamed away ── GRACE ────────────────────────► look again: gone, or back with new content
//! ```
//!
//! So an atomic rename causes no delay, a half-written file is not read, and an editor that removes a file before rewriting it
//! loses nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Without a write for this long, a file that is still open counts as complete.
pub const WRITE_SETTLE_TIME: Duration = Duration::from_millis(50);
/// A file that is written continuously is read at the latest after this time.
const MAX_WRITE_WAIT: Duration = Duration::from_millis(500);
/// A removed file may come back within this time without its objects being removed.
pub const REMOVAL_GRACE: Duration = Duration::from_millis(50);

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTouch {
    /// It is complete: renamed into place, or closed after writing.
    Complete,
    /// It is being written.
    Growing,
    /// It is gone, at least for now.
    Gone,
}

/// The files and walks that are due later.
#[derive(Debug, Default)]
pub struct PendingReads {
    files: HashMap<PathBuf, PendingFile>,
    walk: Option<Instant>,
}

/// What is due now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DueReads {
    /// These files, with the last event of each.
    pub files: Vec<(PathBuf, FileTouch)>,
    /// Whether to walk the whole directory.
    pub walk: bool,
}

#[derive(Clone, Copy, Debug)]
struct PendingFile {
    touch: FileTouch,
    at: Instant,
    latest: Instant,
}

impl PendingReads {
    /// A manifest was touched.
    pub fn touch(&mut self, path: PathBuf, touch: FileTouch, now: Instant) {
        let due =
            self.files.entry(path).or_insert(PendingFile { touch, at: now, latest: now + MAX_WRITE_WAIT });
        due.touch = touch;
        due.at = match touch {
            FileTouch::Complete => now,
            FileTouch::Growing => (now + WRITE_SETTLE_TIME).min(due.latest),
            FileTouch::Gone => now + REMOVAL_GRACE,
        };
    }

    /// Schedules a walk, after an event that does not name the changed files.
    pub fn schedule_walk(&mut self, at: Instant) {
        self.walk = Some(self.walk.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next work is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.files.values().map(|due| due.at).chain(self.walk).min()
    }

    /// Takes the due work.
    pub fn take_due(&mut self, now: Instant) -> DueReads {
        let walk = self.walk.take_if(|at| *at <= now).is_some();
        let mut files: Vec<_> = self
            .files
            .iter()
            .filter(|(_, due)| due.at <= now)
            .map(|(path, due)| (path.clone(), due.touch))
            .collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        for (path, _) in &files {
            self.files.remove(path);
        }
        DueReads { files, walk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn due(pending: &mut PendingReads, at: Instant) -> usize {
        pending.take_due(at).files.len()
    }

    #[test]
    fn a_rename_is_read_at_once() {
        let (mut pending, start) = (PendingReads::default(), Instant::now());
        pending.touch("a".into(), FileTouch::Complete, start);
        assert_eq!(due(&mut pending, start), 1);
        assert_eq!(pending.next_due(), None);
    }

    #[test]
    fn a_growing_file_is_read_when_it_is_closed_or_settles() {
        let (mut pending, start) = (PendingReads::default(), Instant::now());
        pending.touch("a".into(), FileTouch::Growing, start);
        pending.touch("a".into(), FileTouch::Growing, start + ms(40));
        assert_eq!(due(&mut pending, start + ms(60)), 0);
        pending.touch("a".into(), FileTouch::Complete, start + ms(61));
        assert_eq!(due(&mut pending, start + ms(61)), 1);
        pending.touch("a".into(), FileTouch::Growing, start);
        assert_eq!(due(&mut pending, start + WRITE_SETTLE_TIME), 1);
    }

    #[test]
    fn a_file_that_never_settles_is_read_after_the_maximum_wait() {
        let (mut pending, start) = (PendingReads::default(), Instant::now());
        for step in 0..60 {
            pending.touch("a".into(), FileTouch::Growing, start + ms(step * 10));
        }
        assert_eq!(due(&mut pending, start + MAX_WRITE_WAIT), 1);
    }

    #[test]
    fn a_removed_file_that_comes_back_is_read_at_once_and_only_once() {
        let (mut pending, start) = (PendingReads::default(), Instant::now());
        pending.touch("a".into(), FileTouch::Gone, start);
        assert_eq!(due(&mut pending, start + ms(1)), 0);
        pending.touch("a".into(), FileTouch::Complete, start + ms(2));
        assert_eq!(due(&mut pending, start + ms(2)), 1);
        assert_eq!(due(&mut pending, start + REMOVAL_GRACE + REMOVAL_GRACE), 0);
    }

    #[test]
    fn the_earliest_walk_counts() {
        let (mut pending, start) = (PendingReads::default(), Instant::now());
        pending.schedule_walk(start + REMOVAL_GRACE);
        pending.schedule_walk(start);
        assert!(pending.take_due(start).walk);
        assert!(!pending.take_due(start + REMOVAL_GRACE).walk);
    }
}
