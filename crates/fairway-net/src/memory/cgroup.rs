//! What the cgroup of this process allows and uses (cgroups(7)), version 2 or 1. Reads only.

use std::fs;
use std::path::{Path, PathBuf};

use super::file::{Kept, field, number};

/// At and above this, version 1 means no limit.
const UNLIMITED: u64 = 1 << 60;

/// The memory files of a cgroup, which stay open.
pub(super) struct Cgroup {
    version: Version,
    limit: Kept,
    usage: Kept,
    statistics: Kept,
}

/// What a cgroup's memory is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// What the kernel could not take back at once: all but the file pages that nothing used lately.
    pub(super) bytes: u64,
    /// What of it is in the buffers of sockets.
    pub(super) sockets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Does not count the memory of sockets.
    One,
    /// Counts it.
    Two,
}

impl Cgroup {
    /// The cgroup of this process, if it has memory files.
    pub(super) fn own() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::find(&groups, Path::new("/sys/fs/cgroup"))
    }

    /// The most specific one that has a limit; else the most specific one, which may be given a limit later.
    fn find(groups: &str, mount: &Path) -> Option<Self> {
        let mut found = candidates(groups, mount)
            .into_iter()
            .filter_map(|(version, directory)| Self::open(version, &directory))
            .collect::<Vec<_>>();
        let limited = found.iter().position(|group| group.limit().is_some()).unwrap_or(0);
        (limited < found.len()).then(|| found.swap_remove(limited))
    }

    fn open(version: Version, directory: &Path) -> Option<Self> {
        let (limit, usage) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            Version::Two => ("memory.max", "memory.current"),
        };
        let open = |file| Kept::open(&directory.join(file));
        Some(Self { version, limit: open(limit)?, usage: open(usage)?, statistics: open("memory.stat")? })
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The bytes this process may use together with what shares its cgroup; `None` without a limit. It may change while
    /// the process runs.
    pub(super) fn limit(&self) -> Option<u64> {
        number(&self.limit.read()?).filter(|bytes| *bytes < UNLIMITED)
    }

    /// All that is charged, pages that the kernel could take back included: never less than [`Cgroup::usage`], and
    /// cheap to read.
    pub(super) fn charged(&self) -> Option<u64> {
        number(&self.usage.read()?)
    }

    /// What the limit is compared with.
    pub(super) fn usage(&self) -> Option<Usage> {
        let charged = self.charged()?;
        let statistics = self.statistics.read()?;
        let (inactive, sockets) = match self.version {
            Version::One => ("total_inactive_file ", None),
            Version::Two => ("inactive_file ", Some("sock ")),
        };
        let inactive = field(&statistics, inactive).unwrap_or(0);
        let sockets = sockets.and_then(|name| field(&statistics, name)).unwrap_or(0);
        Some(Usage { bytes: charged.saturating_sub(inactive), sockets })
    }
}

/// The directories that may be it, the most specific first. In a container the group's own path may not be visible, and
/// its root is the group itself.
fn candidates(groups: &str, mount: &Path) -> Vec<(Version, PathBuf)> {
    let mut directories = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            directories.extend([path, ""].map(|path| (Version::Two, mount.join(path))));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let root = mount.join("memory");
            directories.extend([path, ""].map(|path| (Version::One, root.join(path))));
        }
    }
    directories
}

#[cfg(test)]
mod tests {
    use fairway_testkit::manifests::Manifests;

    use super::*;

    /// A file system with one cgroup: its directory, and the limit, usage and statistics in it.
    fn mounted(directory: &str, files: [(&str, &str); 3]) -> Manifests {
        let mount = Manifests::new();
        let directory = mount.path().join(directory);
        fs::create_dir_all(&directory).unwrap();
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
        mount
    }

    fn two(limit: &'static str) -> [(&'static str, &'static str); 3] {
        let statistics = "anon 300\nsock 40\ninactive_file 250\nactive_file 10\n";
        [("memory.max", limit), ("memory.current", "600\n"), ("memory.stat", statistics)]
    }

    fn one(limit: &'static str) -> [(&'static str, &'static str); 3] {
        let statistics = "inactive_file 1\nsock 3\ntotal_inactive_file 200\n";
        [("memory.limit_in_bytes", limit), ("memory.usage_in_bytes", "600\n"), ("memory.stat", statistics)]
    }

    #[test]
    fn the_limit_of_either_version_is_found_and_none_is_none() {
        for (groups, directory, files, bytes) in [
            ("0::/pod/a", "pod/a", two("536870912\n"), Some(536_870_912)),
            ("0::/pod/a", "", two("1000\n"), Some(1000)),
            ("0::/", "", two("max\n"), None),
            ("3:cpu:/x\n2:memory:/pod", "memory/pod", one("1000\n"), Some(1000)),
            ("2:memory:/pod", "memory", one("9223372036854771712\n"), None),
            ("2:memory:/pod", "elsewhere", one("1\n"), None),
        ] {
            let mount = mounted(directory, files);
            let limit = Cgroup::find(groups, mount.path()).and_then(|group| group.limit());
            assert_eq!(limit, bytes, "{groups} {directory}");
        }
    }

    #[test]
    fn pages_of_files_that_nothing_used_lately_are_not_counted() {
        for (groups, directory, files, usage) in [
            ("0::/pod", "pod", two("1000\n"), Usage { bytes: 350, sockets: 40 }),
            ("2:memory:/pod", "memory/pod", one("1000\n"), Usage { bytes: 400, sockets: 0 }),
        ] {
            let mount = mounted(directory, files);
            let group = Cgroup::find(groups, mount.path()).unwrap();
            assert_eq!((group.usage(), group.charged()), (Some(usage), Some(600)), "{groups}");
        }
    }

    #[test]
    fn a_limit_that_changes_while_the_process_runs_is_followed() {
        let mount = mounted("pod", two("max\n"));
        let group = Cgroup::find("0::/pod", mount.path()).unwrap();
        assert_eq!(group.limit(), None);
        fs::write(mount.path().join("pod/memory.max"), "1000\n").unwrap();
        assert_eq!(group.limit(), Some(1000));
    }
}
