//! Which paths below the directory are manifests, by name only.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// What a path is by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// A manifest file.
    Manifest,
    /// The `..data` link of a mounted ConfigMap or Secret: when it is replaced by a rename, every file of the volume changes at
    /// once (Kubernetes `AtomicWriter`).
    VolumeSwap,
    /// Hidden files, editor backups and locks: never read.
    Ignored,
    /// Anything else, perhaps a directory.
    Other,
}

/// What `path`, below the directory `root`, is by its name.
#[must_use]
pub(crate) fn classify(root: &Path, path: &Path) -> NameKind {
    let Ok(below) = path.strip_prefix(root) else {
        return NameKind::Other;
    };
    let mut parts = below.components().rev();
    let Some(Component::Normal(last)) = parts.next() else {
        return NameKind::Other;
    };
    if parts.any(|part| matches!(part, Component::Normal(name) if is_hidden(name))) {
        return NameKind::Ignored;
    }
    if last == "..data" {
        return NameKind::VolumeSwap;
    }
    if is_hidden(last) || is_backup(last) {
        return NameKind::Ignored;
    }
    if is_manifest(last) { NameKind::Manifest } else { NameKind::Other }
}

/// Whether directory walks skip this name.
#[must_use]
pub fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Whether a file of this name holds manifests.
#[must_use]
pub(crate) fn is_manifest(name: &OsStr) -> bool {
    let extension = Path::new(name).extension();
    !is_hidden(name)
        && !is_backup(name)
        && extension.is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}

/// Backup and probe files of editors: `x~` (emacs, vim), `#x#` (emacs), `4913` (vim), `x.swp` (vim).
fn is_backup(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(b"~")
        || (name.starts_with(b"#") && name.ends_with(b"#"))
        || name == b"4913"
        || [&b".swp"[..], b".swx", b".swo", b".tmp", b".bak"].iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_distinguished_from_files_of_editors() {
        let root = Path::new("conf");
        for (path, kind) in [
            ("conf/web.yaml", NameKind::Manifest),
            ("conf/deep/er/web.yml", NameKind::Manifest),
            ("conf/web.json", NameKind::Manifest),
            ("conf/web.yaml~", NameKind::Ignored),
            ("conf/.#web.yaml", NameKind::Ignored),
            ("conf/.web.yaml.swp", NameKind::Ignored),
            ("conf/4913", NameKind::Ignored),
            ("conf/#web.yaml#", NameKind::Ignored),
            ("conf/..data", NameKind::VolumeSwap),
            ("conf/..2026_01_01/web.yaml", NameKind::Ignored),
            ("conf/.git/config.yaml", NameKind::Ignored),
            ("conf/deeper", NameKind::Other),
            ("conf/readme.md", NameKind::Other),
            ("conf", NameKind::Other),
        ] {
            assert_eq!(classify(root, Path::new(path)), kind, "{path}");
        }
    }
}
