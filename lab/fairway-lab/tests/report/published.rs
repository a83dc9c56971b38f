//! What this repository publishes: figures that are those of its results, results whose revision is known, and a size that
//! a clone can bear.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::laboratory;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn publish(root: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    laboratory(root, &[&["publish", "."], arguments].concat())
}

/// The documents and the results without the history, as in an unpacked archive.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for place in ["README.md", "docs/performance.md", "docs/limits.md", "docs/overview.svg", "docs/results"] {
        let target = folder.path().join(place);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let source = Path::new(ROOT).join(place);
        assert!(Command::new("cp").arg("-r").args([&source, &target]).status().unwrap().success());
    }
    folder
}

#[test]
fn a_figure_that_was_changed_or_added_by_hand_is_refused() {
    for (file, from, to, expected) in [
        ("README.md", "fairway 0.1.0: 0 of ", "fairway 0.1.0: 1 of ", "README.md, figures: it has"),
        (
            "docs/limits.md",
            "<!-- floods:end -->",
            "| `gentle` | nothing | 0.1 | 0.10 | 1 of 2 MiB, 0 | 0 | 0 ms |\n<!-- floods:end -->",
            "docs/limits.md, floods: it has",
        ),
        ("docs/performance.md", "one core |", "three cores |", "docs/performance.md, bench: it has"),
        (
            "README.md",
            "## Try it",
            "It is 3.5x faster.\n\n## Try it",
            "README.md: a figure that is not generated: It is 3.5x",
        ),
    ] {
        let folder = copy();
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let (code, told) = publish(folder.path(), &["--check"]);
        assert!(code == Some(1) && told.contains(expected), "{told}");
    }
}

#[test]
fn results_without_a_clean_revision_are_refused() {
    let folder = copy();
    let path = folder.path().join("docs/results/cpu.json");
    let mut file: serde_json::Value =
        serde_json::from_slice(&fairway_lab_measure::results::read_kept(&path).unwrap()).unwrap();
    for revision in ["bb398aa with changes", "unknown"] {
        file["origin"]["revision"] = revision.into();
        fs::write(&path, file.to_string()).unwrap();
        let (code, told) = publish(folder.path(), &["--check"]);
        assert!(code == Some(1) && told.contains("docs/results/cpu.json names no clean revision"), "{told}");
    }
}

#[test]
fn publishing_twice_changes_nothing() {
    let folder = copy();
    let read = || {
        ["README.md", "docs/performance.md"].map(|file| fs::read_to_string(folder.path().join(file)).unwrap())
    };
    let before = read();
    assert!(publish(folder.path(), &[]) == (Some(0), String::new()));
    assert!(before == read());
}

#[test]
fn published_results_are_few_and_small() {
    let entries = fs::read_dir(Path::new(ROOT).join("docs/results")).unwrap().map(Result::unwrap);
    let (pages, results): (Vec<_>, Vec<_>) =
        entries.partition(|entry| entry.file_name().to_str().unwrap().ends_with(".html"));
    let bytes = |files: &[fs::DirEntry]| files.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>();
    assert!(results.len() <= 40 && bytes(&results) <= 1_000_000, "{} bytes", bytes(&results));
    assert!(bytes(&pages) <= 1_100_000, "{} bytes", bytes(&pages));
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    assert!(text.lines().count() <= 150, "{} lines", text.lines().count());
}
