//! Walks the directory and stats every manifest without opening it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::names;

/// The maximum depth; deeper directories are reported as unreadable.
const MAX_DEPTH: usize = 32;
/// The maximum number of entries of a walk; beyond it, the remaining directories are reported as unreadable. A link may lead to a
/// tree of any size.
const MAX_ENTRIES: usize = 250_000;
const TOO_MANY_ENTRIES: &str =
    "there are too many files and directories here, including links; the rest is not read";

/// Identifies the state of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Walk {
    /// The manifests and their stamps.
    pub files: BTreeMap<PathBuf, FileStamp>,
    /// Paths that could not be listed or read, with the reason. Known files below them are not removed.
    pub unreadable: BTreeMap<PathBuf, String>,
    /// Whether there are too many entries, not counting those behind links.
    pub is_too_large: bool,
    /// Links whose trees were abandoned in this walk because they are too large, and the directory they lead to.
    pub oversized: BTreeMap<PathBuf, DirectoryIdentity>,
}

/// The device and inode of a directory.
pub type DirectoryIdentity = (u64, u64);

impl FileStamp {
    /// The state in this metadata (links followed).
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Walks `root` and follows links, except those that still lead to an abandoned tree.
///
/// # Errors
/// `root` itself cannot be listed.
pub fn walk(root: &Path, oversized: BTreeMap<PathBuf, DirectoryIdentity>) -> io::Result<Walk> {
    walk_within(root, MAX_ENTRIES, oversized)
}

fn walk_within(
    root: &Path,
    max_entries: usize,
    skipped: BTreeMap<PathBuf, DirectoryIdentity>,
) -> io::Result<Walk> {
    let mut walker = Walker { remaining: max_entries, skipped, ..Walker::default() };
    walker.list(&QueuedDirectory { path: root.into(), depth: 0, tree: root.into(), is_linked: false })?;
    while let Some(directory) = walker.next() {
        if walker.found.unreadable.contains_key(&*directory.tree) {
            continue;
        }
        if let Err(error) = walker.list(&directory) {
            // Removed since its parent was listed; so are its files.
            if !is_gone(&error) {
                walker.found.unreadable.insert(directory.path, error.to_string());
            }
        }
    }
    Ok(walker.found)
}

/// Whether nothing exists at a path, or its parent is not a directory any more.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn identity(metadata: &Metadata) -> DirectoryIdentity {
    (metadata.dev(), metadata.ino())
}

/// A walk in progress.
#[derive(Default)]
struct Walker {
    found: Walk,
    seen_directories: BTreeSet<DirectoryIdentity>,
    /// Links that are not followed.
    skipped: BTreeMap<PathBuf, DirectoryIdentity>,
    /// Entries that may still be visited.
    remaining: usize,
    /// Directories to list.
    directories: VecDeque<QueuedDirectory>,
    /// Links to directories. They are followed last, so that a tree elsewhere takes nothing away from this one.
    links: VecDeque<QueuedDirectory>,
}

struct QueuedDirectory {
    path: PathBuf,
    /// Levels below the root.
    depth: usize,
    /// The root, or the link below it that led here: abandoned as a whole if too large.
    tree: Arc<Path>,
    is_linked: bool,
}

impl Walker {
    fn next(&mut self) -> Option<QueuedDirectory> {
        self.directories.pop_front().or_else(|| self.links.pop_front())
    }

    fn list(&mut self, within: &QueuedDirectory) -> io::Result<()> {
        let QueuedDirectory { path: directory, depth, tree, is_linked } = within;
        let metadata = fs::metadata(directory)?;
        if !self.seen_directories.insert(identity(&metadata)) {
            return Ok(());
        }
        if *depth > MAX_DEPTH {
            return Err(io::Error::other(format!("directories are nested more than {MAX_DEPTH} deep")));
        }
        let mut entries =
            fs::read_dir(directory)?.take(self.remaining + 1).collect::<io::Result<Vec<_>>>()?;
        let Some(left) = self.remaining.checked_sub(entries.len()) else {
            self.remaining = 0;
            self.found.unreadable.insert(tree.to_path_buf(), TOO_MANY_ENTRIES.to_owned());
            if !is_linked {
                self.found.is_too_large = true;
            } else if let Ok(led_to) = fs::metadata(tree) {
                self.found.oversized.insert(tree.to_path_buf(), identity(&led_to));
            }
            return Ok(());
        };
        self.remaining = left;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if names::is_hidden(&name) {
                continue;
            }
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.directories.push_back(QueuedDirectory {
                    path,
                    depth: depth + 1,
                    tree: tree.clone(),
                    is_linked: *is_linked,
                });
            } else if names::is_manifest(&name) || kind.is_symlink() {
                self.examine(path, within);
            }
        }
        Ok(())
    }

    /// Adds a manifest, or follows a link to a manifest or directory.
    fn examine(&mut self, path: PathBuf, within: &QueuedDirectory) {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && self.skipped.get(&path) == Some(&identity(&metadata)) => {
                self.found.unreadable.insert(path, TOO_MANY_ENTRIES.to_owned());
            }
            Ok(metadata) if metadata.is_dir() => {
                let tree = if within.is_linked { within.tree.clone() } else { path.as_path().into() };
                let depth = within.depth + 1;
                self.links.push_back(QueuedDirectory { path, depth, tree, is_linked: true });
            }
            Ok(metadata) if metadata.is_file() && path.file_name().is_some_and(names::is_manifest) => {
                self.found.files.insert(path, FileStamp::from_metadata(&metadata));
            }
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                self.found.unreadable.insert(path, error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_once_and_hidden_files_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        for name in ["a.yaml", "sub/b.yml", "sub/.hidden/c.yaml", "note.txt", "d.json~"] {
            fs::write(root.join(name), "x").unwrap();
        }
        symlink(root, root.join("sub/loop")).unwrap();
        symlink(root.join("a.yaml"), root.join("link.yaml")).unwrap();
        symlink(root.join("nothing"), root.join("dangling.yaml")).unwrap();
        let walk = walk(root, BTreeMap::new()).unwrap();
        assert_eq!(names(&walk, root), ["a.yaml", "link.yaml", "sub/b.yml"]);
        assert!(walk.unreadable.is_empty());
    }

    fn names(walk: &Walk, root: &Path) -> Vec<String> {
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        walk.files.keys().map(name).collect()
    }

    #[test]
    fn a_link_to_a_huge_tree_is_abandoned_and_the_rest_is_read() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = dir.path();
        for number in 0..100 {
            let directory = elsewhere.path().join(format!("{number}/below"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("a.yaml"), "x").unwrap();
        }
        symlink(elsewhere.path(), root.join("a")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/z.yaml"), "x").unwrap();
        let walk = walk_within(root, 150, BTreeMap::new()).unwrap();
        assert!(names(&walk, root).contains(&"sub/z.yaml".to_owned()));
        assert!(walk.files.len() < 100, "{}", walk.files.len());
        assert!(!walk.is_too_large, "what is too large is behind a link");
        let (directory, why) = walk.unreadable.first_key_value().unwrap();
        assert!(*directory == root.join("a") && why.contains("too many files"), "{why}");
        assert!(walk_within(root, 1_000, BTreeMap::new()).unwrap().unreadable.is_empty());
    }

    #[test]
    fn an_abandoned_tree_is_walked_again_when_its_link_changes() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, link) = (dir.path(), dir.path().join("a"));
        for name in ["large", "small"] {
            fs::create_dir(elsewhere.path().join(name)).unwrap();
        }
        for number in 0..50 {
            fs::write(elsewhere.path().join(format!("large/{number}.yaml")), "x").unwrap();
        }
        fs::write(elsewhere.path().join("small/b.yaml"), "x").unwrap();
        symlink(elsewhere.path().join("large"), &link).unwrap();
        let first = walk_within(root, 20, BTreeMap::new()).unwrap();
        assert!(first.oversized.contains_key(&link), "{first:?}");
        // With this limit the tree would be read.
        let again = walk_within(root, 1_000, first.oversized.clone()).unwrap();
        assert!(again.files.is_empty() && again.oversized.is_empty(), "{again:?}");
        assert_eq!(again.unreadable, first.unreadable);
        fs::remove_file(&link).unwrap();
        symlink(elsewhere.path().join("small"), &link).unwrap();
        let other = walk_within(root, 20, first.oversized).unwrap();
        assert_eq!(names(&other, root), ["a/b.yaml"]);
    }

    #[test]
    fn one_directory_with_too_many_files_is_not_read_into_memory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("many")).unwrap();
        for number in 0..50 {
            fs::write(dir.path().join(format!("many/{number}.yaml")), "x").unwrap();
        }
        let walk = walk_within(dir.path(), 20, BTreeMap::new()).unwrap();
        assert!(walk.files.is_empty() && walk.unreadable.contains_key(dir.path()), "{walk:?}");
        assert!(walk.is_too_large);
    }

    #[test]
    fn a_kubernetes_volume_is_read_through_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("..2026_01_01/sub")).unwrap();
        fs::write(root.join("..2026_01_01/a.yaml"), "x").unwrap();
        fs::write(root.join("..2026_01_01/sub/b.yaml"), "x").unwrap();
        symlink("..2026_01_01", root.join("..data")).unwrap();
        symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
        symlink("..data/sub", root.join("sub")).unwrap();
        let walk = walk(root, BTreeMap::new()).unwrap();
        assert_eq!(names(&walk, root), ["a.yaml", "sub/b.yaml"]);
    }
}
