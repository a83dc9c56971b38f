//! What git knows of a revision. Never changes anything.

use std::path::Path;
use std::process::Command;

/// The crates that serve a request, with the names that they had before they were merged: history is counted by its paths.
const DATA_PLANE: [&str; 12] = [
    "crates/fairway-proxy",
    "crates/fairway-net",
    "crates/fairway-runtime",
    "crates/fairway-connection",
    "crates/fairway-sides",
    "crates/fairway-http",
    "crates/fairway-http1",
    "crates/fairway-http2",
    "crates/fairway-grpc",
    "crates/fairway-message",
    "crates/fairway-routing",
    "crates/fairway-model",
];

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether history is there to be asked: not in an unpacked archive and not in a shallow clone.
pub(super) fn has_history(root: &Path) -> bool {
    git(root, &["rev-parse", "--is-shallow-repository"]).is_some_and(|answer| answer == "false")
}

/// The commit that is checked out.
pub(super) fn head(root: &Path) -> Option<String> {
    git(root, &["rev-parse", "--short=12", "HEAD"])
}

/// Whether `revision` is part of the history of what is checked out.
pub(super) fn is_ancestor(root: &Path, revision: &str) -> bool {
    git(root, &["merge-base", "--is-ancestor", revision, "HEAD"]).is_some()
}

/// How many commits after `revision` and up to `end` changed the data plane.
pub(super) fn data_plane_commits(root: &Path, revision: &str, end: &str) -> Option<u64> {
    let range = format!("{revision}..{end}");
    let mut arguments = vec!["rev-list", "--count", "--no-merges", &range, "--"];
    arguments.extend(DATA_PLANE);
    git(root, &arguments)?.parse().ok()
}
