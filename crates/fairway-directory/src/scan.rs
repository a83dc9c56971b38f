//! Walks the directory and looks at every manifest without opening it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::names;

/// Directories below each other; deeper ones are reported as unreadable.
const MAX_DEPTH: usize = 32;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The manifests with what they looked like.
    pub files: BTreeMap<PathBuf, Stamp>,
    /// What could not be listed or looked at, and why. What was known below these paths is not gone.
    pub unreadable: BTreeMap<PathBuf, String>,
}

impl Stamp {
    /// Takes the state that `metadata` (links followed) shows.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Walks `root`, links followed.
///
/// # Errors
/// `root` itself cannot be listed.
pub fn walk(root: &Path) -> io::Result<Walk> {
    let mut walk = Walk::default();
    let mut seen = BTreeSet::new();
    list(root, 0, &mut walk, &mut seen)?;
    Ok(walk)
}

/// Whether there is nothing at a path: neither in its directory nor where that is a file by now.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn enter(directory: &Path, depth: usize, walk: &mut Walk, seen: &mut BTreeSet<(u64, u64)>) {
    if let Err(error) = list(directory, depth, walk, seen) {
        // Gone since its parent was listed: what was in it is gone too.
        if !is_gone(&error) {
            walk.unreadable.insert(directory.to_path_buf(), error.to_string());
        }
    }
}

fn list(directory: &Path, depth: usize, walk: &mut Walk, seen: &mut BTreeSet<(u64, u64)>) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    if !seen.insert((metadata.dev(), metadata.ino())) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("more than {MAX_DEPTH} directories below each other")));
    }
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        if names::is_hidden(&name) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            enter(&path, depth + 1, walk, seen);
        } else if names::is_manifest(&name) || kind.is_symlink() {
            look(&path, depth, walk, seen);
        }
    }
    Ok(())
}

/// A manifest, or a link to one or to a directory.
fn look(path: &Path, depth: usize, walk: &mut Walk, seen: &mut BTreeSet<(u64, u64)>) {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => enter(path, depth + 1, walk, seen),
        Ok(metadata) if metadata.is_file() && path.file_name().is_some_and(names::is_manifest) => {
            walk.files.insert(path.to_path_buf(), Stamp::of(&metadata));
        }
        Ok(_) => {}
        Err(error) if is_gone(&error) => {}
        Err(error) => {
            walk.unreadable.insert(path.to_path_buf(), error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn follows_links_once_and_skips_what_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        for name in ["a.yaml", "sub/b.yml", "sub/.hidden/c.yaml", "note.txt", "d.json~"] {
            fs::write(root.join(name), "x").unwrap();
        }
        symlink(root, root.join("sub/loop")).unwrap();
        symlink(root.join("a.yaml"), root.join("link.yaml")).unwrap();
        symlink(root.join("nothing"), root.join("dangling.yaml")).unwrap();
        let walk = walk(root).unwrap();
        let found: Vec<_> =
            walk.files.keys().map(|path| path.strip_prefix(root).unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["a.yaml", "link.yaml", "sub/b.yml"]);
        assert!(walk.unreadable.is_empty());
    }
}
