//! All files of a directory and who of them owns which object. Touches the disk only when asked to look.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairway_translate::{Change, Diagnostic, ObjectRef};

use crate::file::{File, Update, duplicate};
use crate::scan::{self, Stamp, Walk};
use fairway_manifest as manifest;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// What is known of the directory.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: BTreeMap<PathBuf, Known>,
    /// The files that give an object, in order of name: the first one's form is served.
    claims: BTreeMap<ObjectRef, Claims>,
    /// Objects with more than one claim.
    contested: BTreeSet<ObjectRef>,
    unreadable: BTreeMap<PathBuf, String>,
    /// Files with something to tell: a change must not visit all the others.
    noisy: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct Known {
    stamp: Option<Stamp>,
    file: File,
}

impl Tree {
    /// Nothing is known yet.
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

    /// Walks the directory and reads what changed, all of it.
    ///
    /// # Errors
    /// The directory itself cannot be listed; what is known stays.
    pub fn read_all(&mut self) -> io::Result<Vec<Change>> {
        let different = self.walk()?;
        Ok(self.read(&different))
    }

    /// Walks the directory without opening a file: those that are new, gone or look different.
    ///
    /// # Errors
    /// The directory itself cannot be listed; what is known stays, and a diagnostic says so.
    pub fn walk(&mut self) -> io::Result<Vec<PathBuf>> {
        let walk = scan::walk(&self.root);
        self.compare(walk)
    }

    /// What a walk through the directory, perhaps on another thread, found to be new, gone or different.
    ///
    /// # Errors
    /// Those of the walk; what is known stays, and a diagnostic says so.
    pub fn compare(&mut self, walk: io::Result<Walk>) -> io::Result<Vec<PathBuf>> {
        let Walk { files, unreadable } = match walk {
            Ok(walk) => walk,
            Err(error) => {
                self.unreadable = BTreeMap::from([(self.root.clone(), error.to_string())]);
                return Err(error);
            }
        };
        self.unreadable = unreadable;
        let looks_known = |path: &PathBuf, stamp: &Stamp| {
            self.files.get(path).is_some_and(|known| known.stamp == Some(*stamp))
        };
        let different = files.iter().filter(|(path, stamp)| !looks_known(path, stamp)).map(|(path, _)| path);
        let hidden = |path: &Path| self.unreadable.keys().any(|barrier| path.starts_with(barrier));
        let gone = self.files.keys().filter(|path| !files.contains_key(*path) && !hidden(path));
        Ok(different.chain(gone).cloned().collect())
    }

    /// Whether the file is there but empty, or not there: signs of a save in progress.
    #[must_use]
    pub fn looks_gone(path: &Path) -> bool {
        fs::metadata(path).map_or(true, |metadata| metadata.len() == 0)
    }

    /// Reads these files, which may be gone.
    pub fn read(&mut self, paths: &[PathBuf]) -> Vec<Change> {
        let mut changes = Vec::new();
        for path in paths {
            self.read_file(path, &mut changes);
        }
        changes
    }

    /// Takes a text as the content of a file that is not there.
    pub fn read_text(&mut self, path: &Path, text: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        let known = self.files.entry(path.to_path_buf()).or_default();
        let update = known.file.update(&display(path), text);
        self.settle(path, update, &mut changes);
        self.noisy.insert(path.to_path_buf());
        changes
    }

    /// What to tell about the files.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let unreadable = self.unreadable.iter().map(|(path, error)| unreadable(path, error));
        let of_files = self
            .noisy
            .iter()
            .filter_map(|path| self.files.get(path))
            .flat_map(|known| known.file.diagnostics());
        unreadable
            .chain(of_files.cloned())
            .chain(self.contested.iter().flat_map(|object| self.losers(object)))
            .collect()
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn read_file(&mut self, path: &Path, changes: &mut Vec<Change>) {
        self.load_file(path, changes);
        if self.files.get(path).is_some_and(|known| known.file.diagnostics().next().is_some()) {
            self.noisy.insert(path.to_path_buf());
        } else {
            self.noisy.remove(path);
        }
    }

    fn load_file(&mut self, path: &Path, changes: &mut Vec<Change>) {
        match load(path) {
            Ok((stamp, text)) => {
                let name = display(path);
                let known = self.files.entry(path.to_path_buf()).or_default();
                known.stamp = Some(stamp);
                let update = known.file.update(&name, &text);
                self.settle(path, update, changes);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // When the whole directory is gone, what was known of it stays until it is back.
                if fs::metadata(&self.root).is_err() {
                    return;
                }
                if let Some(known) = self.files.remove(path) {
                    let gone = known.file.references();
                    self.settle(path, Update { gone, ..Update::default() }, changes);
                }
            }
            Err(error) => {
                let known = self.files.entry(path.to_path_buf()).or_default();
                known.stamp = fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
                known.file.refuse(unreadable(path, &error.to_string()));
            }
        }
    }

    /// Turns what a file gives into what the directory gives.
    fn settle(&mut self, path: &Path, update: Update, changes: &mut Vec<Change>) {
        for (reference, (object, source)) in update.set {
            let claims = self.claims.entry(reference.clone()).or_default();
            claims.insert(path, source.line);
            if claims.0.len() > 1 {
                self.contested.insert(reference);
            }
            if claims.first().is_some_and(|first| first == path) {
                changes.push(Change::Set(object, Some(source)));
            }
        }
        let mut heirs = BTreeSet::new();
        for reference in update.gone {
            match self.withdraw(path, &reference) {
                Some(Successor::None) => changes.push(Change::Remove(reference)),
                Some(Successor::File(heir)) => _ = heirs.insert(heir),
                None => {}
            }
        }
        // Objects that lost were not kept in memory: the files that have the first claim now are read again.
        for heir in heirs {
            if let Some(known) = self.files.get_mut(&heir) {
                known.file.forget_identities();
            }
            self.read_file(&heir, changes);
        }
    }

    /// Ends a file's claim; says who serves the object now if that file served it.
    fn withdraw(&mut self, path: &Path, reference: &ObjectRef) -> Option<Successor> {
        let claims = self.claims.get_mut(reference)?;
        let served = claims.first().is_some_and(|first| first == path);
        claims.remove(path);
        let heir = claims.first().cloned();
        if claims.0.len() < 2 {
            self.contested.remove(reference);
        }
        if heir.is_none() {
            self.claims.remove(reference);
        }
        served.then(|| heir.map_or(Successor::None, Successor::File))
    }

    fn losers(&self, reference: &ObjectRef) -> Vec<Diagnostic> {
        let Some(claims) = self.claims.get(reference) else {
            return Vec::new();
        };
        let mut claims = claims.0.iter();
        let Some((winner, winning_line)) = claims.next() else {
            return Vec::new();
        };
        let won = (&display(winner), *winning_line);
        claims.map(|(path, line)| duplicate(reference, (&display(path), *line), won)).collect()
    }
}

/// The files that give an object, in order of name, and the lines at which they do. With no room for more: nearly always there
/// is one.
#[derive(Debug, Default)]
struct Claims(Vec<(PathBuf, u32)>);

impl Claims {
    fn first(&self) -> Option<&PathBuf> {
        self.0.first().map(|(path, _)| path)
    }

    fn find(&self, path: &Path) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_path().cmp(path))
    }

    fn insert(&mut self, path: &Path, line: u32) {
        match self.find(path) {
            Ok(at) => self.0[at].1 = line,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (path.to_path_buf(), line));
            }
        }
    }

    fn remove(&mut self, path: &Path) {
        if let Ok(at) = self.find(path) {
            self.0.remove(at);
        }
    }
}

/// Who serves an object after a claim ended.
enum Successor {
    None,
    File(PathBuf),
}

fn load(path: &Path) -> io::Result<(Stamp, String)> {
    // The state is taken before the content: a change in between is seen by the next look.
    let metadata = fs::metadata(path)?;
    if metadata.len() > MAX_FILE {
        return Err(io::Error::other(format!("is larger than {} MiB", MAX_FILE >> 20)));
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("is neither a file nor a directory"));
    }
    let bytes = fs::read(path)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        io::Error::other(format!("is no UTF-8 text (line {})", line + 1))
    })?;
    Ok((Stamp::of(&metadata), text))
}

fn unreadable(path: &Path, error: &str) -> Diagnostic {
    let because = (format!("cannot be read: {error}"), "what was known of it before stays");
    manifest::about_line(&display(path), 1, "unreadable", because)
}

fn display(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}
