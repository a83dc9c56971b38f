//! All files of a directory, and which file defines which object. Reads the disk only on request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use fairway_model::SourceLine;
use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::manifest;
use fairway_objects::object::ObjectRef;
use fairway_objects::resources::Change;
use rustix::fs::{Mode, OFlags};

use crate::directory::file::{FileUpdate, ManifestFile, duplicate_diagnostic};
use crate::directory::scan::{self, FileStamp, Walk};

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// From this many new files on, several threads read them.
const PARALLEL_READ_THRESHOLD: usize = 64;
/// How many files are read ahead: their objects are in memory twice until they are taken.
const MAX_READ_AHEAD: usize = 1024;

/// The known state of the directory.
#[derive(Debug)]
pub struct ManifestTree {
    root: PathBuf,
    files: BTreeMap<Arc<Path>, Box<KnownFile>>,
    /// The files that define an object: the first one is served.
    claims: BTreeMap<ObjectRef, Claims>,
    /// Objects with more than one claim.
    contested: BTreeSet<ObjectRef>,
    unreadable: BTreeMap<PathBuf, String>,
    /// Files with diagnostics, so that a change need not visit all files.
    noisy: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct KnownFile {
    stamp: Option<FileStamp>,
    file: ManifestFile,
}

/// A new file, already read.
struct FirstReading {
    stamp: FileStamp,
    file: ManifestFile,
    update: FileUpdate,
}

impl FirstReading {
    /// `None` if the file cannot be read; the owner of the tree finds out why.
    fn read(path: &Path) -> Option<Self> {
        let (stamp, text) = load_text(path).ok()?;
        let mut file = ManifestFile::default();
        let update = file.update(&display(path), &text);
        Some(Self { stamp, file, update })
    }
}

impl ManifestTree {
    /// An empty tree.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            files: BTreeMap::new(),
            claims: BTreeMap::new(),
            contested: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            noisy: BTreeSet::new(),
        }
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Walks the directory and reads everything that changed.
    ///
    /// # Errors
    /// The directory cannot be listed; its known state stays.
    pub fn read_all(&mut self) -> io::Result<Vec<Change>> {
        let different = self.walk()?;
        Ok(self.read(&different))
    }

    /// Walks the directory without opening files: returns those that are new, gone or different.
    ///
    /// # Errors
    /// The directory cannot be listed; its known state stays, with a diagnostic.
    pub fn walk(&mut self) -> io::Result<Vec<PathBuf>> {
        let walk = scan::walk(&self.root, BTreeMap::new());
        self.compare(walk)
    }

    /// The files that are new, gone or different after a walk, perhaps by another thread.
    ///
    /// # Errors
    /// Those of the walk; the known state stays, with a diagnostic.
    pub fn compare(&mut self, walk: io::Result<Walk>) -> io::Result<Vec<PathBuf>> {
        let Walk { files, unreadable, .. } = match walk {
            Ok(walk) => walk,
            Err(error) => {
                self.unreadable = BTreeMap::from([(self.root.clone(), error.to_string())]);
                return Err(error);
            }
        };
        self.unreadable = unreadable;
        let looks_known = |path: &Path, stamp: &FileStamp| {
            self.files.get(path).is_some_and(|known| known.stamp == Some(*stamp))
        };
        let different = files.iter().filter(|(path, stamp)| !looks_known(path, stamp)).map(|(path, _)| path);
        let hidden = |path: &Path| self.unreadable.keys().any(|barrier| path.starts_with(barrier));
        let gone = self.files.keys().filter(|path| !files.contains_key::<Path>(path) && !hidden(path));
        Ok(different.cloned().chain(gone.map(|path| path.to_path_buf())).collect())
    }

    /// Whether the file is empty or missing: signs of a save in progress.
    #[must_use]
    pub(crate) fn looks_gone(path: &Path) -> bool {
        fs::metadata(path).map_or(true, |metadata| metadata.len() == 0)
    }

    /// Reads these files, some of which may be gone.
    pub fn read(&mut self, paths: &[PathBuf]) -> Vec<Change> {
        let (mut changes, before) = (Vec::new(), self.files.len());
        for part in paths.chunks(MAX_READ_AHEAD) {
            let mut ahead = self.read_ahead(part);
            for path in part {
                match ahead.remove(path) {
                    Some(first) => self.apply_first_reading(path, first, &mut changes),
                    None => self.load_file(path, &mut changes),
                }
                self.track_diagnostics(path);
            }
        }
        if self.files.len() > 2 * before {
            self.compact();
        }
        changes
    }

    /// Maps filled in key order have half-empty nodes; rebuilding them at once fills the nodes.
    fn compact(&mut self) {
        self.files = std::mem::take(&mut self.files).into_iter().collect();
        self.claims = std::mem::take(&mut self.claims).into_iter().collect();
    }

    /// Reads new files on all CPUs if there are many. The result depends only on their content.
    fn read_ahead(&self, paths: &[PathBuf]) -> HashMap<PathBuf, FirstReading> {
        let new: Vec<_> = paths.iter().filter(|path| !self.files.contains_key(path.as_path())).collect();
        if new.len() < PARALLEL_READ_THRESHOLD {
            return HashMap::new();
        }
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let read = |part: &[&PathBuf]| {
            let first = |path: &&PathBuf| Some(((*path).clone(), FirstReading::read(path)?));
            part.iter().filter_map(first).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let parts = new.chunks(new.len().div_ceil(threads));
            let running: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            let join = |thread: ScopedJoinHandle<'_, Vec<_>>| match thread.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            running.into_iter().flat_map(join).collect()
        })
    }

    fn apply_first_reading(&mut self, path: &Path, first: FirstReading, changes: &mut Vec<Change>) {
        let FirstReading { stamp, file, update } = first;
        let path: Arc<Path> = path.into();
        self.files.insert(Arc::clone(&path), Box::new(KnownFile { stamp: Some(stamp), file }));
        self.apply_update(&path, update, changes);
    }

    /// Uses a text as the content of a file that does not exist.
    pub fn read_text(&mut self, path: &Path, text: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        let (shared, known) = self.known_file(path);
        let update = known.file.update(&display(path), text);
        self.apply_update(&shared, update, &mut changes);
        self.noisy.insert(path.to_path_buf());
        changes
    }

    /// The diagnostics of all files.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let unreadable = self.unreadable.iter().map(|(path, error)| unreadable(path, error));
        let of_files = self
            .noisy
            .iter()
            .filter_map(|path| self.files.get(path.as_path()))
            .flat_map(|known| known.file.diagnostics());
        unreadable
            .chain(of_files.cloned())
            .chain(self.contested.iter().flat_map(|object| self.duplicate_diagnostics(object)))
            .collect()
    }

    /// The number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The state of a file, with the path that all its claims share.
    fn known_file(&mut self, path: &Path) -> (Arc<Path>, &mut KnownFile) {
        let shared = self.files.get_key_value(path).map(|(shared, _)| Arc::clone(shared));
        let shared = shared.unwrap_or_else(|| path.into());
        let known: &mut KnownFile = self.files.entry(Arc::clone(&shared)).or_default();
        (shared, known)
    }

    fn read_file(&mut self, path: &Path, changes: &mut Vec<Change>) {
        self.load_file(path, changes);
        self.track_diagnostics(path);
    }

    /// Tracks whether the file has diagnostics.
    fn track_diagnostics(&mut self, path: &Path) {
        if self.files.get(path).is_some_and(|known| known.file.diagnostics().next().is_some()) {
            self.noisy.insert(path.to_path_buf());
        } else {
            self.noisy.remove(path);
        }
    }

    fn load_file(&mut self, path: &Path, changes: &mut Vec<Change>) {
        match load_text(path) {
            Ok((stamp, text)) => {
                let (shared, known) = self.known_file(path);
                known.stamp = Some(stamp);
                let update = known.file.update(&display(path), &text);
                self.apply_update(&shared, update, changes);
            }
            Err(error) if scan::is_gone(&error) => {
                // While the whole directory is missing, its known state stays.
                if !self.root.is_dir() {
                    return;
                }
                if let Some(known) = self.files.remove(path) {
                    let gone = known.file.references();
                    self.apply_update(
                        &path.into(),
                        FileUpdate { removed: gone, ..FileUpdate::default() },
                        changes,
                    );
                }
            }
            Err(error) => {
                let (_, known) = self.known_file(path);
                known.stamp = fs::metadata(path).ok().map(|metadata| FileStamp::from_metadata(&metadata));
                known.file.mark_unreadable(unreadable(path, &error.to_string()));
            }
        }
    }

    /// Turns changes of a file into changes of the directory.
    fn apply_update(&mut self, path: &Arc<Path>, update: FileUpdate, changes: &mut Vec<Change>) {
        let read = update.set.into_iter().map(|it| (ClaimForm::Read, it));
        let stand_ins = update.stand_ins.into_iter().map(|it| (ClaimForm::StandIn, it));
        for (form, (reference, (object, source))) in read.chain(stand_ins) {
            let claims = self.claims.entry(reference.clone()).or_default();
            claims.insert(Claim { form, file: Arc::clone(path), line: source.line });
            if claims.as_slice().len() > 1 {
                self.contested.insert(reference);
            }
            if claims.first() == Some(path) {
                changes.push(Change::Set(object, Some(source)));
            }
        }
        let mut heirs = BTreeSet::new();
        for reference in update.removed {
            match self.withdraw_claim(path, &reference) {
                Some(Successor::None) => changes.push(Change::Remove(reference)),
                Some(Successor::File(heir)) => _ = heirs.insert(heir),
                None => {}
            }
        }
        // Objects without the first claim are not kept in memory: files that now have the first claim are read again.
        for heir in heirs {
            if let Some(known) = self.files.get_mut(&heir) {
                known.file.forget_identities();
            }
            self.read_file(&heir, changes);
        }
    }

    /// Removes a file's claim; returns which file serves the object now, if this one did.
    fn withdraw_claim(&mut self, path: &Path, reference: &ObjectRef) -> Option<Successor> {
        let claims = self.claims.get_mut(reference)?;
        let served = claims.first().is_some_and(|first| **first == *path);
        claims.remove(path);
        let heir = claims.first().cloned();
        if claims.as_slice().len() < 2 {
            self.contested.remove(reference);
        }
        if heir.is_none() {
            self.claims.remove(reference);
        }
        served.then(|| heir.map_or(Successor::None, Successor::File))
    }

    fn duplicate_diagnostics(&self, reference: &ObjectRef) -> Vec<Diagnostic> {
        let Some(claims) = self.claims.get(reference) else {
            return Vec::new();
        };
        let Some((winner, losers)) = claims.as_slice().split_first() else {
            return Vec::new();
        };
        let written = |claim: &Claim| SourceLine { file: display(&claim.file), line: claim.line };
        let won = written(winner);
        losers.iter().map(|lost| duplicate_diagnostic(reference, written(lost), &won)).collect()
    }
}

/// The files that define an object: those in which it can be read first, then by name.
#[derive(Debug)]
enum Claims {
    /// Nearly always.
    One(Claim),
    /// Several, or none.
    Several(Box<[Claim]>),
}

#[derive(Clone, Debug)]
struct Claim {
    form: ClaimForm,
    file: Arc<Path>,
    line: u32,
}

/// How a file defines an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimForm {
    /// As the object.
    Read,
    /// As a stand-in that closes its targets, because the object cannot be read.
    StandIn,
}

impl Default for Claims {
    fn default() -> Self {
        Self::Several(Box::default())
    }
}

impl Claims {
    fn as_slice(&self) -> &[Claim] {
        match self {
            Self::One(claim) => std::slice::from_ref(claim),
            Self::Several(claims) => claims,
        }
    }

    fn first(&self) -> Option<&Arc<Path>> {
        self.as_slice().first().map(|claim| &claim.file)
    }

    fn insert(&mut self, claim: Claim) {
        let mut claims = self.without(&claim.file);
        let at = claims.partition_point(|known| (known.form, &known.file) < (claim.form, &claim.file));
        claims.insert(at, claim);
        *self = claims.into();
    }

    fn remove(&mut self, file: &Path) {
        *self = self.without(file).into();
    }

    fn without(&self, file: &Path) -> Vec<Claim> {
        self.as_slice().iter().filter(|claim| *claim.file != *file).cloned().collect()
    }
}

impl From<Vec<Claim>> for Claims {
    fn from(claims: Vec<Claim>) -> Self {
        match <[Claim; 1]>::try_from(claims) {
            Ok([only]) => Self::One(only),
            Err(claims) => Self::Several(claims.into()),
        }
    }
}

/// Which file serves an object after a claim ended.
enum Successor {
    None,
    File(Arc<Path>),
}

fn load_text(path: &Path) -> io::Result<(FileStamp, String)> {
    // Opening a special file may have side effects.
    check_readable(&fs::metadata(path)?)?;
    // The state is taken before the content: a change in between is seen by the next walk.
    let (file, metadata) = open(path)?;
    // Files of procfs claim to be empty, and reading one may never end (`/proc/kmsg`).
    let mut bytes = Vec::new();
    if metadata.len() > 0 {
        bytes.reserve_exact(usize::try_from(metadata.len()).unwrap_or_default());
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        io::Error::other(format!("is no UTF-8 text (line {})", line + 1))
    })?;
    Ok((FileStamp::from_metadata(&metadata), text))
}

/// Opens a file without blocking, in case it was replaced by a pipe: opening that would wait for a writer (`fifo(7)`).
fn open(path: &Path) -> io::Result<(fs::File, Metadata)> {
    let without_waiting = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, without_waiting, Mode::empty())?);
    let metadata = file.metadata()?;
    check_readable(&metadata)?;
    Ok((file, metadata))
}

/// Whether a file in this state is read.
fn check_readable(metadata: &Metadata) -> io::Result<()> {
    if metadata.len() > MAX_FILE_BYTES {
        return Err(too_large());
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::NotFound.into());
    }
    match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("is neither a file nor a directory")),
    }
}

fn too_large() -> io::Error {
    io::Error::other(format!("is larger than {} MiB", MAX_FILE_BYTES >> 20))
}

fn unreadable(path: &Path, error: &str) -> Diagnostic {
    let because = (format!("cannot be read: {error}"), "what was known of it before stays");
    manifest::line_diagnostic(&display(path), 1, "unreadable", because)
}

fn display(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::FileType;

    use super::*;

    /// The reason the file is not opened. Runs on another thread, which a pipe would block.
    fn refusal(path: &Path) -> String {
        let ((tell, told), path) = (channel(), path.to_path_buf());
        thread::spawn(move || tell.send(open(&path).map(drop).map_err(|error| error.to_string())));
        told.recv_timeout(Duration::from_secs(20)).expect("opening it ends").unwrap_err()
    }

    #[test]
    fn opening_a_pipe_in_place_of_a_file_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, link) = (dir.path().join("pipe.yaml"), dir.path().join("link.yaml"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        symlink(&pipe, &link).unwrap();
        for path in [&*pipe, &*link, Path::new("/dev/null")] {
            assert_eq!(refusal(path), "is neither a file nor a directory", "{}", path.display());
        }
        assert!(scan::is_gone(&open(dir.path()).unwrap_err()));
    }
}
