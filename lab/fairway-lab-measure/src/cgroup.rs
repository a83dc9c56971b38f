//! The cgroup of a container: CPU time, memory and processes, of version 1 or 2 (Documentation/admin-guide/cgroup-v1,
//! cgroup-v2). Found by the container's identifier, wherever the runtime and kubelet put it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{self, Usage};

/// Maximum depth of a container's cgroup below the root.
const DEPTH: usize = 8;

/// The cgroups of containers, each looked up once.
#[derive(Default)]
pub(crate) struct Containers {
    cgroups: HashMap<String, Option<CgroupPath>>,
}

#[derive(Clone)]
enum CgroupPath {
    /// A directory in the hierarchy of each controller.
    V1 {
        cpu: PathBuf,
        memory: PathBuf,
    },
    V2(PathBuf),
}

impl Containers {
    /// The usage of a container since its start; `None` if its cgroup is missing.
    pub(crate) fn usage(&mut self, container: &str) -> Option<Usage> {
        let known = self.cgroups.get(container);
        let path = match known {
            Some(Some(place)) => place.clone(),
            // A container that has just started may have no cgroup yet, so it is looked up again.
            _ => {
                let found = find(container);
                self.cgroups.insert(container.to_owned(), found.clone());
                found?
            }
        };
        read(&path)
    }
}

fn find(container: &str) -> Option<CgroupPath> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").is_file() {
        return below(root, container, DEPTH).map(CgroupPath::V2);
    }
    let cpu = ["cpuacct", "cpu,cpuacct"].iter().find_map(|name| below(&root.join(name), container, DEPTH))?;
    Some(CgroupPath::V1 { cpu, memory: below(&root.join("memory"), container, DEPTH)? })
}

/// The directory whose name has the identifier in it; with systemd it is `cri-containerd-ID.scope`.
fn below(folder: &Path, container: &str, depth: usize) -> Option<PathBuf> {
    let folders = || {
        let entries = fs::read_dir(folder).ok().into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    };
    if let Some(found) = folders().find(|entry| entry.file_name().to_string_lossy().contains(container)) {
        return Some(found.path());
    }
    if depth == 0 {
        return None;
    }
    folders().find_map(|entry| below(&entry.path(), container, depth - 1))
}

fn read(path: &CgroupPath) -> Option<Usage> {
    let (cpu_ns, user_ns, folder) = match path {
        CgroupPath::V1 { cpu, .. } => {
            (number(&cpu.join("cpuacct.usage"))?, number(&cpu.join("cpuacct.usage_user")), cpu)
        }
        CgroupPath::V2(folder) => {
            let stat = folder.join("cpu.stat");
            (field(&stat, "usage_usec")? * 1000, field(&stat, "user_usec").map(|time| time * 1000), folder)
        }
    };
    let memory_bytes = match path {
        CgroupPath::V1 { memory, .. } => net(
            number(&memory.join("memory.usage_in_bytes")),
            field(&memory.join("memory.stat"), "total_inactive_file"),
        ),
        CgroupPath::V2(folder) => {
            net(number(&folder.join("memory.current")), field(&folder.join("memory.stat"), "inactive_file"))
        }
    };
    Some(Usage { cpu_ns, user_ns, memory_bytes, switches: process::switches(&members(folder)) })
}

fn net(all: Option<u64>, droppable: Option<u64>) -> Option<u64> {
    Some(all?.saturating_sub(droppable.unwrap_or(0)))
}

fn members(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The value in a file of lines `name value`.
fn field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
