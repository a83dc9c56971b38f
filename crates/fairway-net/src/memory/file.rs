//! Small files of the kernel that are read again and again, and numbers in them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The most that is read of one; `memory.stat` of a busy cgroup has about 2 KiB.
const MOST: usize = 16 * 1024;

/// A file that stays open, so that it can be read when the process has no descriptor left.
pub(super) struct Kept(File);

impl Kept {
    pub(super) fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// What it says now.
    pub(super) fn read(&self) -> Option<String> {
        let mut bytes = vec![0; MOST];
        let mut length = 0;
        // The kernel may hand it out in pieces.
        while length < MOST {
            match self.0.read_at(&mut bytes[length..], length as u64).ok()? {
                0 => break,
                count => length += count,
            }
        }
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }
}

/// The number that is all of `text`.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number that follows `name` at the beginning of a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}
