//! The thread that watches a directory. Owns the inotify watch and the timing; does not interpret objects.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::resources::Change;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use thiserror::Error;

use crate::directory::names::{self, NameKind};
use crate::directory::pending::{DueReads, FileTouch, PendingReads, REMOVAL_GRACE, WRITE_SETTLE_TIME};
use crate::directory::scan::{self, DirectoryIdentity, Walk};
use crate::directory::tree::ManifestTree;

/// How often the directory is walked without an event: a safety net for events that the kernel does not send, for example for the
/// target of a link that lies elsewhere.
const WALK_INTERVAL: Duration = Duration::from_secs(5);
/// How often the directory is walked while it is not watched: it is missing, or the kernel's limit of watches is
/// reached.
const UNWATCHED_WALK_INTERVAL: Duration = Duration::from_millis(250);

/// How long an oversized tree behind a link is skipped, unless the link changes. An oversized directory without events
/// is skipped as long.
const OVERSIZED_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Why a directory cannot be a source.
#[derive(Debug, Error)]
pub enum StartError {
    /// The directory cannot be listed.
    #[error("cannot read the directory {path}", path = path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A report of a watched directory.
#[derive(Debug)]
pub struct DirectoryUpdate {
    /// The changed objects.
    pub changes: Vec<Change>,
    /// All current diagnostics of the directory; they replace earlier ones.
    pub diagnostics: Vec<Diagnostic>,
    /// When the first event was received.
    pub received_at: Instant,
}

/// A directory that is being watched.
#[derive(Debug)]
pub struct WatchedDirectory {
    thread: Option<JoinHandle<()>>,
    stop: Sender<WatchSignal>,
}

impl WatchedDirectory {
    /// Reads the directory, reports its objects before returning, and keeps watching on its own thread.
    ///
    /// # Errors
    /// The directory cannot be listed now. Later it may come and go.
    pub fn start(
        root: &Path,
        listener: impl FnMut(DirectoryUpdate) + Send + 'static,
    ) -> Result<Self, StartError> {
        let (stop, signals) = channel();
        let unreadable = |source| StartError::Unreadable { path: root.to_path_buf(), source };
        fs::read_dir(root).map_err(unreadable)?;
        let mut watch = DirectoryWatch::new(root, stop.clone(), Box::new(listener));
        // The watch is set up before the first walk, so that no change is missed between them.
        watch.update_watcher();
        let changes = watch.tree.read_all().map_err(unreadable)?;
        watch.report(changes, Instant::now());
        let run = move || watch.run(&signals);
        let thread =
            thread::Builder::new().name("fairway-dir".into()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// Ends the thread.
    pub fn stop(mut self) {
        // The thread may have ended already.
        _ = self.stop.send(WatchSignal::Stop);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

enum WatchSignal {
    Event(notify::Result<Event>),
    /// The result of a periodic walk.
    Walked(io::Result<Walk>),
    Stop,
}

struct DirectoryWatch {
    tree: ManifestTree,
    pending: PendingReads,
    event_source: EventSource,
    events: Sender<WatchSignal>,
    next_walk_at: Instant,
    /// Links to trees that were too large, and how long they are skipped.
    oversized: BTreeMap<PathBuf, (DirectoryIdentity, Instant)>,
    listener: Box<dyn FnMut(DirectoryUpdate) + Send>,
    /// The diagnostics that were reported last.
    reported: Option<Vec<Diagnostic>>,
    /// The last reported reason why there is no watch.
    unwatched_reason: Option<String>,
}

/// Whether events arrive.
enum EventSource {
    /// From the directory with this device and inode.
    Watching { identity: DirectoryIdentity, _watcher: RecommendedWatcher },
    /// No events arrive.
    None,
}

impl DirectoryWatch {
    /// Watches `root`, which was not read yet.
    fn new(
        root: &Path,
        events: Sender<WatchSignal>,
        listener: Box<dyn FnMut(DirectoryUpdate) + Send>,
    ) -> Self {
        Self {
            tree: ManifestTree::new(root),
            pending: PendingReads::default(),
            event_source: EventSource::None,
            events,
            next_walk_at: Instant::now(),
            oversized: BTreeMap::new(),
            listener,
            reported: None,
            unwatched_reason: None,
        }
    }

    fn run(mut self, signals: &Receiver<WatchSignal>) {
        loop {
            let wake_at = self.pending.next_due().map_or(self.next_walk_at, |at| at.min(self.next_walk_at));
            match signals.recv_timeout(wake_at.saturating_duration_since(Instant::now())) {
                Ok(WatchSignal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(WatchSignal::Event(event)) => self.handle_event(event),
                Ok(WatchSignal::Walked(walk)) => self.handle_walk(walk),
                Err(RecvTimeoutError::Timeout) => {}
            }
            for signal in signals.try_iter() {
                match signal {
                    WatchSignal::Stop => return,
                    WatchSignal::Event(event) => self.handle_event(event),
                    WatchSignal::Walked(walk) => self.handle_walk(walk),
                }
            }
            self.walk_if_due();
            self.read_due();
        }
    }

    /// Records an event; nothing is read yet.
    fn handle_event(&mut self, event: notify::Result<Event>) {
        let now = Instant::now();
        let event = match event {
            Ok(event) if event.need_rescan() => {
                tracing::warn!("the kernel lost events of the manifests; reading all of them");
                self.pending.schedule_walk(now);
                return;
            }
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "watching the manifests failed; reading all of them");
                self.event_source = EventSource::None;
                self.next_walk_at = now;
                return;
            }
        };
        let Some(hint) = hint(event.kind) else {
            return;
        };
        for path in event.paths {
            self.handle_path(path, hint, now);
        }
    }

    fn handle_path(&mut self, path: PathBuf, hint: EventHint, now: Instant) {
        match (names::classify(self.tree.root(), &path), hint) {
            (NameKind::Ignored, _) => {}
            (NameKind::Manifest, EventHint::Touched(FileTouch::Growing)) if is_link(&path) => {
                self.pending.touch(path, FileTouch::Complete, now);
            }
            (NameKind::Manifest, EventHint::Touched(touch)) => self.pending.touch(path, touch, now),
            (_, EventHint::Touched(FileTouch::Gone)) => self.pending.schedule_walk(now + REMOVAL_GRACE),
            (NameKind::VolumeSwap | NameKind::Other, EventHint::Touched(FileTouch::Complete)) => {
                self.pending.schedule_walk(now);
            }
            (_, EventHint::NewDirectory) => {
                // Files that were written before the new watch existed gave no event.
                self.pending.schedule_walk(now);
                self.next_walk_at = self.next_walk_at.min(now + REMOVAL_GRACE);
            }
            (_, EventHint::Touched(FileTouch::Growing)) => {}
        }
    }

    fn walk_if_due(&mut self) {
        let now = Instant::now();
        if now < self.next_walk_at {
            return;
        }
        self.update_watcher();
        if matches!(self.event_source, EventSource::None) {
            self.pending.schedule_walk(now);
            self.next_walk_at = now + UNWATCHED_WALK_INTERVAL;
            return;
        }
        // On its own thread: with 10,000 files a walk takes tens of milliseconds, and changes must not wait for it.
        let (root, walked) = (self.tree.root().to_path_buf(), self.events.clone());
        let oversized = self.still_oversized(now);
        // The receiver is gone only while the watching thread ends.
        let walk = move || _ = walked.send(WatchSignal::Walked(scan::walk(&root, oversized)));
        if let Err(error) = thread::Builder::new().name("fairway-walk".into()).spawn(walk) {
            tracing::warn!(%error, "cannot start a thread to walk the manifests");
        }
        self.next_walk_at = now + WALK_INTERVAL;
    }

    /// Schedules reads of the files that a walk found changed. A file that was read during the walk may count as changed:
    /// reading it again costs little and changes nothing.
    fn handle_walk(&mut self, walk: io::Result<Walk>) {
        let now = Instant::now();
        let mut read = Vec::new();
        self.apply_walk(walk, &mut read, now);
        for path in read {
            self.pending.touch(path, FileTouch::Complete, now);
        }
        self.report(Vec::new(), now);
    }

    /// Makes sure that the directory that now has this name is the watched one.
    fn update_watcher(&mut self) {
        let identity = fs::metadata(self.tree.root()).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        match (&self.event_source, identity) {
            (EventSource::Watching { identity: watched, .. }, Some(found)) if *watched == found => {}
            (_, None) => self.event_source = EventSource::None,
            (_, Some(identity)) => {
                let events = self.events.clone();
                // The receiver is gone only while this thread ends.
                let handler = move |event| _ = events.send(WatchSignal::Event(event));
                // A link may lead to a tree of any size: linked trees are walked periodically instead.
                let config = Config::default().with_follow_symlinks(false);
                let watching = RecommendedWatcher::new(handler, config).and_then(|mut watcher| {
                    watcher.watch(self.tree.root(), RecursiveMode::Recursive).map(|()| watcher)
                });
                match watching {
                    Ok(watcher) => {
                        self.unwatched_reason = None;
                        self.event_source = EventSource::Watching { identity, _watcher: watcher };
                    }
                    Err(error) => {
                        self.event_source = EventSource::None;
                        self.log_unwatched(error.to_string());
                    }
                }
            }
        }
    }

    /// Logs once why there is no watch: setting it up is retried.
    fn log_unwatched(&mut self, error: String) {
        if self.unwatched_reason.as_ref() != Some(&error) {
            tracing::warn!(
                %error,
                "cannot watch the manifests; they are read four times a second, and once a minute if there are too many"
            );
        }
        self.unwatched_reason = Some(error);
    }

    fn read_due(&mut self) {
        let started = Instant::now();
        let DueReads { files, walk } = self.pending.take_due(started);
        if files.is_empty() && !walk {
            return;
        }
        let mut read = Vec::new();
        for (path, touch) in files {
            // An empty or missing file is a save in progress until the grace period is over.
            if touch != FileTouch::Gone && ManifestTree::looks_gone(&path) {
                self.pending.touch(path, FileTouch::Gone, started);
            } else {
                read.push(path);
            }
        }
        if walk {
            let oversized = self.still_oversized(started);
            self.apply_walk(scan::walk(self.tree.root(), oversized), &mut read, started);
        }
        let changes = self.tree.read(&read);
        self.report(changes, started);
    }

    fn still_oversized(&mut self, now: Instant) -> BTreeMap<PathBuf, DirectoryIdentity> {
        self.oversized.retain(|_, (_, until)| now < *until);
        self.oversized.iter().map(|(link, (led_to, _))| (link.clone(), *led_to)).collect()
    }

    fn apply_walk(&mut self, walk: io::Result<Walk>, read: &mut Vec<PathBuf>, now: Instant) {
        for (link, led_to) in walk.iter().flat_map(|walk| &walk.oversized) {
            self.oversized.insert(link.clone(), (*led_to, now + OVERSIZED_RETRY_INTERVAL));
        }
        if walk.as_ref().is_ok_and(|walk| walk.is_too_large) {
            self.next_walk_at = now + OVERSIZED_RETRY_INTERVAL;
        }
        let differing_paths = match self.tree.compare(walk) {
            Ok(different) => different,
            Err(_) => {
                // Reported as a diagnostic of the tree. The known state stays until the directory is back.
                self.event_source = EventSource::None;
                self.next_walk_at = self.next_walk_at.min(now + UNWATCHED_WALK_INTERVAL);
                return;
            }
        };
        for path in differing_paths {
            if ManifestTree::looks_gone(&path) {
                self.pending.touch(path, FileTouch::Gone, now);
            } else if is_young(&path) && !is_link(&path) {
                self.pending.touch(path, FileTouch::Growing, now);
            } else {
                read.push(path);
            }
        }
    }

    /// Reports what is new, if anything.
    fn report(&mut self, changes: Vec<Change>, event_time: Instant) {
        let diagnostics = self.tree.diagnostics();
        if changes.is_empty() && self.reported.as_ref() == Some(&diagnostics) {
            return;
        }
        self.reported = Some(diagnostics.clone());
        (self.listener)(DirectoryUpdate { changes, diagnostics, received_at: event_time });
    }
}

/// What an event means for its paths.
#[derive(Clone, Copy)]
enum EventHint {
    Touched(FileTouch),
    NewDirectory,
}

fn hint(kind: EventKind) -> Option<EventHint> {
    let touch = match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => FileTouch::Complete,
        EventKind::Access(_) => return None,
        EventKind::Create(CreateKind::Folder) => return Some(EventHint::NewDirectory),
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => FileTouch::Gone,
        // Both names of a rename are also reported as From and To.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return None,
        EventKind::Modify(ModifyKind::Name(_) | ModifyKind::Metadata(_)) => FileTouch::Complete,
        EventKind::Create(_) | EventKind::Modify(_) => FileTouch::Growing,
        EventKind::Any | EventKind::Other => return None,
    };
    Some(EventHint::Touched(touch))
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Whether the file was written so recently that its writer may still be writing.
fn is_young(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| {
        SystemTime::now().duration_since(modified).is_ok_and(|age| age < WRITE_SETTLE_TIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_too_large_is_skipped_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (events, _signals) = channel();
        let (sender, updates) = channel();
        let mut watch =
            DirectoryWatch::new(dir.path(), events, Box::new(move |news| drop(sender.send(news))));
        let too_large = || {
            let unreadable = [(dir.path().to_path_buf(), "too many".to_owned())].into();
            Ok(Walk { is_too_large: true, unreadable, ..Walk::default() })
        };
        for _ in 0..2 {
            let before = Instant::now();
            watch.handle_walk(too_large());
            assert!(watch.next_walk_at >= before + OVERSIZED_RETRY_INTERVAL);
        }
        assert_eq!(updates.try_iter().count(), 1, "the diagnostic is reported once");
        watch.handle_path(dir.path().join("new"), EventHint::NewDirectory, Instant::now());
        let soon = Instant::now() + REMOVAL_GRACE;
        assert!(watch.next_walk_at <= soon && watch.pending.next_due().is_some_and(|at| at <= soon));
    }
}
