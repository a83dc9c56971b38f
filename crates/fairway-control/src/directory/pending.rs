//! Decides when a touched file is read. Pure: events and the time go in, work comes out.
//!
//! ```text
//!   renamed into place, closed after writing ──────────────► now
//!   created, written to ── no further write for SETTLE ────► now     (at the latest after PATIENCE)
//!   removed, renamed away ── GRACE ────────────────────────► look again: gone, or back with new content
//! ```
//!
//! So an atomic rename costs no delay, a half-written file is not read, and an editor that removes before it writes
//! loses nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Without a write for so long, a file that is still open counts as complete.
pub const SETTLE: Duration = Duration::from_millis(50);
/// A file that is written to all the time is read at the latest after this.
const PATIENCE: Duration = Duration::from_millis(500);
/// A removed file may come back within this time without its objects going.
pub const GRACE: Duration = Duration::from_millis(50);

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It is complete: renamed into place, or closed after writing.
    Complete,
    /// It is being written.
    Growing,
    /// It is gone, at least for now.
    Gone,
}

/// What waits to be looked at.
#[derive(Debug, Default)]
pub struct Pending {
    files: HashMap<PathBuf, Due>,
    walk: Option<Instant>,
}

/// What is to be looked at now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// These files, with the last that happened to each.
    pub files: Vec<(PathBuf, Touch)>,
    /// Whether the whole directory is to be walked.
    pub walk: bool,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    touch: Touch,
    at: Instant,
    latest: Instant,
}

impl Pending {
    /// A manifest was touched.
    pub fn file(&mut self, path: PathBuf, touch: Touch, now: Instant) {
        let due = self.files.entry(path).or_insert(Due { touch, at: now, latest: now + PATIENCE });
        due.touch = touch;
        due.at = match touch {
            Touch::Complete => now,
            Touch::Growing => (now + SETTLE).min(due.latest),
            Touch::Gone => now + GRACE,
        };
    }

    /// Something happened that only a walk through the directory can tell.
    pub fn walk(&mut self, at: Instant) {
        self.walk = Some(self.walk.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next work is due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.files.values().map(|due| due.at).chain(self.walk).min()
    }

    /// Takes what is due.
    pub fn take(&mut self, now: Instant) -> Work {
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
        Work { files, walk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn due(pending: &mut Pending, at: Instant) -> usize {
        pending.take(at).files.len()
    }

    #[test]
    fn a_rename_is_read_at_once() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.file("a".into(), Touch::Complete, start);
        assert_eq!(due(&mut pending, start), 1);
        assert_eq!(pending.next(), None);
    }

    #[test]
    fn a_file_that_grows_is_read_when_it_is_closed_or_rests() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.file("a".into(), Touch::Growing, start);
        pending.file("a".into(), Touch::Growing, start + ms(40));
        assert_eq!(due(&mut pending, start + ms(60)), 0);
        pending.file("a".into(), Touch::Complete, start + ms(61));
        assert_eq!(due(&mut pending, start + ms(61)), 1);
        pending.file("a".into(), Touch::Growing, start);
        assert_eq!(due(&mut pending, start + SETTLE), 1);
    }

    #[test]
    fn a_file_that_never_rests_is_read_all_the_same() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        for step in 0..60 {
            pending.file("a".into(), Touch::Growing, start + ms(step * 10));
        }
        assert_eq!(due(&mut pending, start + PATIENCE), 1);
    }

    #[test]
    fn a_removed_file_that_comes_back_is_read_at_once_and_only_once() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.file("a".into(), Touch::Gone, start);
        assert_eq!(due(&mut pending, start + ms(1)), 0);
        pending.file("a".into(), Touch::Complete, start + ms(2));
        assert_eq!(due(&mut pending, start + ms(2)), 1);
        assert_eq!(due(&mut pending, start + GRACE + GRACE), 0);
    }

    #[test]
    fn the_earliest_walk_counts() {
        let (mut pending, start) = (Pending::default(), Instant::now());
        pending.walk(start + GRACE);
        pending.walk(start);
        assert!(pending.take(start).walk);
        assert!(!pending.take(start + GRACE).walk);
    }
}
