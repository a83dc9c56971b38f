//! The thread that watches a directory. Owns the inotify watch and the timing, never an object's meaning nor where what
//! it tells goes.

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
use crate::directory::pending::{GRACE, Pending, SETTLE, Touch, Work};
use crate::directory::scan::{self, Identity, Walk};
use crate::directory::tree::Tree;

/// How often everything is looked at although no event came: the safety net for events that the kernel does not send,
/// as for the target of a link that lies elsewhere.
const LOOK_AROUND: Duration = Duration::from_secs(5);
/// The same while there is no watch: the directory is gone, or the kernel's limit of watches is reached.
const LOOK_AROUND_BLIND: Duration = Duration::from_millis(250);

/// How long a tree that was too large is left alone, unless its link leads elsewhere; without events, the directory itself too.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// Why a directory cannot be the source of configuration.
#[derive(Debug, Error)]
pub enum StartError {
    /// It cannot be listed.
    #[error("cannot read the directory {path}", path = path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread could be started for it.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What a watched directory tells.
#[derive(Debug)]
pub struct News {
    /// What differs.
    pub changes: Vec<Change>,
    /// All that there is to say about the directory now; replaces what was said before.
    pub diagnostics: Vec<Diagnostic>,
    /// When it was heard of.
    pub heard: Instant,
}

/// A directory that is being watched.
#[derive(Debug)]
pub struct Directory {
    thread: Option<JoinHandle<()>>,
    stop: Sender<Signal>,
}

impl Directory {
    /// Reads the directory, tells what is in it before it returns, and goes on watching and telling on a thread of its own.
    ///
    /// # Errors
    /// The directory cannot be listed now. Later it may come and go.
    pub fn start(root: &Path, tell: impl FnMut(News) + Send + 'static) -> Result<Self, StartError> {
        let (stop, signals) = channel();
        let unreadable = |source| StartError::Unreadable { path: root.to_path_buf(), source };
        fs::read_dir(root).map_err(unreadable)?;
        let mut watch = Watch::over(root, stop.clone(), Box::new(tell));
        // The watch stands before the first look, so that nothing falls between them.
        watch.open_eyes();
        let changes = watch.tree.read_all().map_err(unreadable)?;
        watch.tell(changes, Instant::now());
        let run = move || watch.run(&signals);
        let thread =
            thread::Builder::new().name("fairway-dir".into()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// Ends the thread.
    pub fn stop(mut self) {
        // A thread that is gone already needs no word.
        _ = self.stop.send(Signal::Stop);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

enum Signal {
    Event(notify::Result<Event>),
    /// What the routine look around found.
    Walked(io::Result<Walk>),
    Stop,
}

struct Watch {
    tree: Tree,
    pending: Pending,
    visibility: Visibility,
    events: Sender<Signal>,
    look_around: Instant,
    /// Links to trees that were too large, and until when they are not followed.
    given_up: BTreeMap<PathBuf, (Identity, Instant)>,
    listener: Box<dyn FnMut(News) + Send>,
    /// The diagnostics that were reported last.
    reported: Option<Vec<Diagnostic>>,
    /// Why there was no watch, as it was said last.
    unwatched: Option<String>,
}

/// Whether events come.
enum Visibility {
    /// From the directory with this device and inode.
    Watching { identity: Identity, _watcher: RecommendedWatcher },
    /// None come.
    Blind,
}

impl Watch {
    /// Over a directory that was not looked at yet.
    fn over(root: &Path, events: Sender<Signal>, listener: Box<dyn FnMut(News) + Send>) -> Self {
        Self {
            tree: Tree::new(root),
            pending: Pending::default(),
            visibility: Visibility::Blind,
            events,
            look_around: Instant::now(),
            given_up: BTreeMap::new(),
            listener,
            reported: None,
            unwatched: None,
        }
    }

    fn run(mut self, signals: &Receiver<Signal>) {
        loop {
            let wake = self.pending.next().map_or(self.look_around, |at| at.min(self.look_around));
            match signals.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Signal::Event(event)) => self.hear(event),
                Ok(Signal::Walked(walk)) => self.looked_around(walk),
                Err(RecvTimeoutError::Timeout) => {}
            }
            for signal in signals.try_iter() {
                match signal {
                    Signal::Stop => return,
                    Signal::Event(event) => self.hear(event),
                    Signal::Walked(walk) => self.looked_around(walk),
                }
            }
            self.look_around_when_due();
            self.work();
        }
    }

    /// Notes what an event says; nothing is read yet.
    fn hear(&mut self, event: notify::Result<Event>) {
        let now = Instant::now();
        let event = match event {
            Ok(event) if event.need_rescan() => {
                tracing::warn!("the kernel lost events of the manifests; everything is looked at");
                self.pending.walk(now);
                return;
            }
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "watching the manifests failed; everything is looked at");
                self.visibility = Visibility::Blind;
                self.look_around = now;
                return;
            }
        };
        let Some(hint) = hint(event.kind) else {
            return;
        };
        for path in event.paths {
            self.hear_of(path, hint, now);
        }
    }

    fn hear_of(&mut self, path: PathBuf, hint: Hint, now: Instant) {
        match (names::classify(self.tree.root(), &path), hint) {
            (NameKind::Ignored, _) => {}
            (NameKind::Manifest, Hint::Touched(Touch::Growing)) if is_link(&path) => {
                self.pending.file(path, Touch::Complete, now);
            }
            (NameKind::Manifest, Hint::Touched(touch)) => self.pending.file(path, touch, now),
            (_, Hint::Touched(Touch::Gone)) => self.pending.walk(now + GRACE),
            (NameKind::VolumeSwap | NameKind::Other, Hint::Touched(Touch::Complete)) => {
                self.pending.walk(now);
            }
            (_, Hint::NewDirectory) => {
                // Files that were written before the new watch stood gave no event.
                self.pending.walk(now);
                self.look_around = self.look_around.min(now + GRACE);
            }
            (_, Hint::Touched(Touch::Growing)) => {}
        }
    }

    fn look_around_when_due(&mut self) {
        let now = Instant::now();
        if now < self.look_around {
            return;
        }
        self.open_eyes();
        if matches!(self.visibility, Visibility::Blind) {
            self.pending.walk(now);
            self.look_around = now + LOOK_AROUND_BLIND;
            return;
        }
        // On a thread of its own: with 10,000 files it takes tens of milliseconds, and changes must not wait for it.
        let (root, walked) = (self.tree.root().to_path_buf(), self.events.clone());
        // The receiver is gone only while the watching thread ends.
        let given_up = self.still_given_up(now);
        let look = move || _ = walked.send(Signal::Walked(scan::walk(&root, given_up)));
        if let Err(error) = thread::Builder::new().name("fairway-look".into()).spawn(look) {
            tracing::warn!(%error, "cannot start a thread to look around the manifests");
        }
        self.look_around = now + LOOK_AROUND;
    }

    /// A file that was read while the walk went on may look different; reading it again costs little and changes nothing.
    fn looked_around(&mut self, walk: io::Result<Walk>) {
        let now = Instant::now();
        let mut read = Vec::new();
        self.sort_out(walk, &mut read, now);
        for path in read {
            self.pending.file(path, Touch::Complete, now);
        }
        self.tell(Vec::new(), now);
    }

    /// Sees to it that the directory which stands under the name now is the one that is watched.
    fn open_eyes(&mut self) {
        let identity = fs::metadata(self.tree.root()).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        match (&self.visibility, identity) {
            (Visibility::Watching { identity: watched, .. }, Some(found)) if *watched == found => {}
            (_, None) => self.visibility = Visibility::Blind,
            (_, Some(identity)) => {
                let events = self.events.clone();
                // The receiver is gone only while this thread ends.
                let handler = move |event| _ = events.send(Signal::Event(event));
                // A link may lead to a tree of any size: what is behind it is looked at now and then instead.
                let config = Config::default().with_follow_symlinks(false);
                let watching = RecommendedWatcher::new(handler, config).and_then(|mut watcher| {
                    watcher.watch(self.tree.root(), RecursiveMode::Recursive).map(|()| watcher)
                });
                match watching {
                    Ok(watcher) => {
                        self.unwatched = None;
                        self.visibility = Visibility::Watching { identity, _watcher: watcher };
                    }
                    Err(error) => {
                        self.visibility = Visibility::Blind;
                        self.say_unwatched(error.to_string());
                    }
                }
            }
        }
    }

    /// Says once why there is no watch: it is tried again and again.
    fn say_unwatched(&mut self, error: String) {
        if self.unwatched.as_ref() != Some(&error) {
            tracing::warn!(
                %error,
                "cannot watch the manifests; they are looked at four times a second, and once a minute if there are too many"
            );
        }
        self.unwatched = Some(error);
    }

    fn work(&mut self) {
        let started = Instant::now();
        let Work { files, walk } = self.pending.take(started);
        if files.is_empty() && !walk {
            return;
        }
        let mut read = Vec::new();
        for (path, touch) in files {
            // An empty or missing file is a save in progress until the grace is over.
            if touch != Touch::Gone && Tree::looks_gone(&path) {
                self.pending.file(path, Touch::Gone, started);
            } else {
                read.push(path);
            }
        }
        if walk {
            let given_up = self.still_given_up(started);
            self.sort_out(scan::walk(self.tree.root(), given_up), &mut read, started);
        }
        let changes = self.tree.read(&read);
        self.tell(changes, started);
    }

    fn still_given_up(&mut self, now: Instant) -> BTreeMap<PathBuf, Identity> {
        self.given_up.retain(|_, (_, until)| now < *until);
        self.given_up.iter().map(|(link, (led_to, _))| (link.clone(), *led_to)).collect()
    }

    fn sort_out(&mut self, walk: io::Result<Walk>, read: &mut Vec<PathBuf>, now: Instant) {
        for (link, led_to) in walk.iter().flat_map(|walk| &walk.given_up) {
            self.given_up.insert(link.clone(), (*led_to, now + GIVEN_UP));
        }
        if walk.as_ref().is_ok_and(|walk| walk.is_too_large) {
            self.look_around = now + GIVEN_UP;
        }
        let different = match self.tree.compare(walk) {
            Ok(different) => different,
            Err(_) => {
                // Told as a diagnostic of the tree. What was known stays until the directory is back.
                self.visibility = Visibility::Blind;
                self.look_around = self.look_around.min(now + LOOK_AROUND_BLIND);
                return;
            }
        };
        for path in different {
            if Tree::looks_gone(&path) {
                self.pending.file(path, Touch::Gone, now);
            } else if is_young(&path) && !is_link(&path) {
                self.pending.file(path, Touch::Growing, now);
            } else {
                read.push(path);
            }
        }
    }

    /// Tells what is new, if anything is.
    fn tell(&mut self, changes: Vec<Change>, heard: Instant) {
        let diagnostics = self.tree.diagnostics();
        if changes.is_empty() && self.reported.as_ref() == Some(&diagnostics) {
            return;
        }
        self.reported = Some(diagnostics.clone());
        (self.listener)(News { changes, diagnostics, heard });
    }
}

/// What an event means for its paths.
#[derive(Clone, Copy)]
enum Hint {
    Touched(Touch),
    NewDirectory,
}

fn hint(kind: EventKind) -> Option<Hint> {
    let touch = match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Touch::Complete,
        EventKind::Access(_) => return None,
        EventKind::Create(CreateKind::Folder) => return Some(Hint::NewDirectory),
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => Touch::Gone,
        // Both names of a rename come again as From and To.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return None,
        EventKind::Modify(ModifyKind::Name(_) | ModifyKind::Metadata(_)) => Touch::Complete,
        EventKind::Create(_) | EventKind::Modify(_) => Touch::Growing,
        EventKind::Any | EventKind::Other => return None,
    };
    Some(Hint::Touched(touch))
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Whether the file was written so recently that its writer may not be done.
fn is_young(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age < SETTLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_too_large_is_left_alone_until_something_happens_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (events, _signals) = channel();
        let (tell, told) = channel();
        let mut watch = Watch::over(dir.path(), events, Box::new(move |news| drop(tell.send(news))));
        let too_large = || {
            let unreadable = [(dir.path().to_path_buf(), "too many".to_owned())].into();
            Ok(Walk { is_too_large: true, unreadable, ..Walk::default() })
        };
        for _ in 0..2 {
            let before = Instant::now();
            watch.looked_around(too_large());
            assert!(watch.look_around >= before + GIVEN_UP);
        }
        assert_eq!(told.try_iter().count(), 1, "it is said once");
        watch.hear_of(dir.path().join("new"), Hint::NewDirectory, Instant::now());
        let soon = Instant::now() + GRACE;
        assert!(watch.look_around <= soon && watch.pending.next().is_some_and(|at| at <= soon));
    }
}
