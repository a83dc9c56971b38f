//! Small kernel files that are read repeatedly, and numbers in them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Maximum bytes read; `memory.stat` of a busy cgroup has about 2 KiB.
const MAX_FILE_BYTES: usize = 16 * 1024;

/// A file that stays open, so that it can be read when the process has no descriptors left.
pub(super) struct KernelFile(File);

impl KernelFile {
    pub(super) fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// Its current content.
    pub(super) fn read(&self) -> Option<String> {
        let mut bytes = vec![0; MAX_FILE_BYTES];
        let mut length = 0;
        // The kernel may return it in parts.
        while length < MAX_FILE_BYTES {
            match self.0.read_at(&mut bytes[length..], length as u64).ok()? {
                0 => break,
                count => length += count,
            }
        }
        bytes.truncate(length);
        String::from_utf8(bytes).ok()
    }
}

/// The number that `text` consists of.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number after `name` at the beginning of a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}
