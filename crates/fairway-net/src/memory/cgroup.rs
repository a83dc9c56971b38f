//! The memory limit and usage of this process's cgroup (cgroups(7)), version 2 or 1.

use std::fs;
use std::path::{Path, PathBuf};

use super::file::{KernelFile, field, number};

/// Values from here on mean no limit in version 1.
const UNLIMITED: u64 = 1 << 60;

/// The memory files of a cgroup, kept open.
pub(super) struct Cgroup {
    version: CgroupVersion,
    limit: KernelFile,
    usage: KernelFile,
    statistics: KernelFile,
}

/// The memory usage of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CgroupUsage {
    /// Bytes that the kernel could not reclaim at once: all but the file pages that were not used lately.
    pub(super) bytes: u64,
    /// The part in socket buffers.
    pub(super) sockets: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    /// Does not count socket memory.
    One,
    /// Counts socket memory.
    Two,
}

impl Cgroup {
    /// The cgroup of this process, if it has memory files.
    pub(super) fn of_this_process() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::find(&groups, Path::new("/sys/fs/cgroup"))
    }

    /// The most specific group with a limit; otherwise the most specific one, which may get a limit later.
    fn find(groups: &str, mount: &Path) -> Option<Self> {
        let mut found = candidates(groups, mount)
            .into_iter()
            .filter_map(|(version, directory)| Self::open(version, &directory))
            .collect::<Vec<_>>();
        let limited = found.iter().position(|group| group.limit().is_some()).unwrap_or(0);
        (limited < found.len()).then(|| found.swap_remove(limited))
    }

    fn open(version: CgroupVersion, directory: &Path) -> Option<Self> {
        let (limit, usage) = match version {
            CgroupVersion::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            CgroupVersion::Two => ("memory.max", "memory.current"),
        };
        let open = |file| KernelFile::open(&directory.join(file));
        Some(Self { version, limit: open(limit)?, usage: open(usage)?, statistics: open("memory.stat")? })
    }

    pub(super) fn version(&self) -> CgroupVersion {
        self.version
    }

    /// The bytes that this process and others in its cgroup may use; `None` without a limit. It may change at run time.
    pub(super) fn limit(&self) -> Option<u64> {
        number(&self.limit.read()?).filter(|bytes| *bytes < UNLIMITED)
    }

    /// All charged memory, including pages that the kernel could reclaim: never less than [`Cgroup::usage`], and cheap
    /// to read.
    pub(super) fn charged(&self) -> Option<u64> {
        number(&self.usage.read()?)
    }

    /// The usage to compare with the limit.
    pub(super) fn usage(&self) -> Option<CgroupUsage> {
        let charged = self.charged()?;
        let statistics = self.statistics.read()?;
        let (inactive, sockets) = match self.version {
            CgroupVersion::One => ("total_inactive_file ", None),
            CgroupVersion::Two => ("inactive_file ", Some("sock ")),
        };
        let inactive = field(&statistics, inactive).unwrap_or(0);
        let sockets = sockets.and_then(|name| field(&statistics, name)).unwrap_or(0);
        Some(CgroupUsage { bytes: charged.saturating_sub(inactive), sockets })
    }
}

/// The possible directories, most specific first. In a container, the group's own path may not be visible, and the root
/// is the group itself.
fn candidates(groups: &str, mount: &Path) -> Vec<(CgroupVersion, PathBuf)> {
    let mut directories = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            directories.extend([path, ""].map(|path| (CgroupVersion::Two, mount.join(path))));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let root = mount.join("memory");
            directories.extend([path, ""].map(|path| (CgroupVersion::One, root.join(path))));
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

    fn single_limit(limit: &'static str) -> [(&'static str, &'static str); 3] {
        let statistics = "inactive_file 1\nsock 3\ntotal_inactive_file 200\n";
        [("memory.limit_in_bytes", limit), ("memory.usage_in_bytes", "600\n"), ("memory.stat", statistics)]
    }

    #[test]
    fn the_limit_of_either_version_is_found_and_none_is_none() {
        for (groups, directory, files, bytes) in [
            ("0::/pod/a", "pod/a", two("536870912\n"), Some(536_870_912)),
            ("0::/pod/a", "", two("1000\n"), Some(1000)),
            ("0::/", "", two("max\n"), None),
            ("3:cpu:/x\n2:memory:/pod", "memory/pod", single_limit("1000\n"), Some(1000)),
            ("2:memory:/pod", "memory", single_limit("9223372036854771712\n"), None),
            ("2:memory:/pod", "elsewhere", single_limit("1\n"), None),
        ] {
            let mount = mounted(directory, files);
            let limit = Cgroup::find(groups, mount.path()).and_then(|group| group.limit());
            assert_eq!(limit, bytes, "{groups} {directory}");
        }
    }

    #[test]
    fn inactive_page_cache_is_not_counted() {
        for (groups, directory, files, usage) in [
            ("0::/pod", "pod", two("1000\n"), CgroupUsage { bytes: 350, sockets: 40 }),
            ("2:memory:/pod", "memory/pod", single_limit("1000\n"), CgroupUsage { bytes: 400, sockets: 0 }),
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
