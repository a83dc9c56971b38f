//! What the cgroup of this process allows (cgroups(7)), version 2 or 1. Reads only.

use std::fs;
use std::path::{Path, PathBuf};

/// At and above this, version 1 means no limit.
const UNLIMITED: u64 = 1 << 60;

/// The bytes this process may use together with what shares its cgroup; `None` without a limit.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit(&groups, Path::new("/sys/fs/cgroup"))
}

fn limit(groups: &str, mount: &Path) -> Option<u64> {
    candidates(groups, mount).iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        text.trim().parse::<u64>().ok().filter(|bytes| *bytes < UNLIMITED)
    })
}

/// The files that may say it, the most specific first. In a container the group's own path may not be visible, and its
/// root is the group itself.
fn candidates(groups: &str, mount: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            files.extend([path, ""].map(|path| mount.join(path).join("memory.max")));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let root = mount.join("memory");
            files.extend([path, ""].map(|path| root.join(path).join("memory.limit_in_bytes")));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_either_version_is_found_and_none_is_none() {
        for (groups, file, text, bytes) in [
            ("0::/pod/a", "pod/a/memory.max", "536870912", Some(536_870_912)),
            ("0::/pod/a", "memory.max", "1000", Some(1000)),
            ("0::/", "memory.max", "max", None),
            ("3:cpu:/x\n2:memory:/pod", "memory/pod/memory.limit_in_bytes", "1000", Some(1000)),
            ("2:memory:/pod", "memory/memory.limit_in_bytes", "9223372036854771712", None),
            ("2:memory:/pod", "elsewhere", "1", None),
        ] {
            let mount = tempfile::tempdir().unwrap();
            let file = mount.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            assert_eq!(limit(groups, mount.path()), bytes, "{groups} {text}");
        }
    }
}
