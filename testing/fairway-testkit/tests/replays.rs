//! Every test runs: inputs of fuzz targets are replayed by an ordinary test, and every file in a test folder is a module of
//! a program that cargo builds. Reads sources, builds nothing.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::structure::{Source, crates, root, sources};

#[test]
fn every_corpus_of_a_fuzz_target_is_replayed_by_a_test() {
    let targets = names(&root().join("fuzz/fuzz_targets"));
    let corpora = names(&root().join("fuzz/corpus"));
    assert!(!targets.is_empty());
    assert_eq!(targets, corpora, "each target has a committed corpus, and no corpus is left from a target");
    let sources = sources();
    let missing: Vec<_> = targets
        .iter()
        .filter(|target| !sources.iter().any(|source| source.is_test && replays(&source.text, target)))
        .collect();
    assert!(missing.is_empty(), "no test reads fuzz/corpus/{missing:?}: a finding would come back unnoticed");
}

/// Whether a test reads the corpus of this target: by its path, or by a path that is joined with its name.
fn replays(text: &str, target: &str) -> bool {
    let corpus_path = format!("fuzz/corpus/{target}\"");
    let joined = || text.contains("fuzz/corpus\"") && text.contains(&format!("(\"{target}\""));
    text.contains("#[test]") && (text.contains(&corpus_path) || joined())
}

#[test]
fn a_replay_is_seen_and_its_absence_too() {
    let by_path = "#[test] fn holds() { read_dir(root.join(\"../../fuzz/corpus/route\")) }";
    let by_name =
        "fn rerun(target) { join(\"../../fuzz/corpus\") } #[test] fn holds() { rerun(\"route\", f) }";
    assert!(replays(by_path, "route") && replays(by_name, "route"));
    assert!(!replays(by_path, "path") && !replays(by_name, "path"));
    assert!(!replays("// #[test] of route is elsewhere", "route"));
}

/// The names in a folder, without the endings of files.
fn names(folder: &Path) -> BTreeSet<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// With `autotests = false` cargo builds only the programs in the manifest; a file that is not one of their modules never
/// runs.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let sources = sources();
    let (mut wrong, mut seen) = (String::new(), 0);
    for place in crates() {
        let manifest = fs::read_to_string(place.join("Cargo.toml")).unwrap();
        if manifest.contains("autotests = false") {
            seen += 1;
            let folder = format!("{}/tests/", place.strip_prefix(root()).unwrap().display());
            let of_crate =
                sources.iter().filter(|source| source.name.starts_with(&folder)).collect::<Vec<_>>();
            for name in forgotten(&manifest, &folder, &of_crate) {
                _ = writeln!(wrong, "{name}: no file has it as a module, so it does not run");
            }
        }
    }
    assert!(seen > 5, "the crates were found");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Files that are neither a program of the manifest nor a module that another file declares.
fn forgotten<'s>(manifest: &str, folder: &str, sources: &[&'s Source]) -> Vec<&'s str> {
    let is_part = |source: &&&Source| {
        let name = source.name.strip_prefix(folder).unwrap();
        let module =
            name.strip_suffix("/mod.rs").or(name.strip_suffix(".rs")).unwrap().rsplit('/').next().unwrap();
        let declared = format!("mod {module};");
        let declares = |text: &str| text.lines().any(|line| line.ends_with(&declared));
        manifest.contains(&format!("path = \"tests/{name}\""))
            || sources.iter().any(|other| other.name != source.name && declares(&other.text))
    };
    sources.iter().filter(|source| !is_part(source)).map(|source| source.name.as_str()).collect()
}

#[test]
fn a_file_outside_the_module_tree_is_found() {
    let source =
        |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned(), is_test: true };
    let sources = [
        source("a/tests/main.rs", "mod one;\n#[path = \"else/where.rs\"]\nmod where;"),
        source("a/tests/one.rs", "pub(crate) mod below;"),
        source("a/tests/one/below/mod.rs", ""),
        source("a/tests/else/where.rs", ""),
        source("a/tests/forgotten.rs", "mod forgotten;"),
    ];
    let found = forgotten("path = \"tests/main.rs\"", "a/tests/", &sources.iter().collect::<Vec<_>>());
    assert_eq!(found, ["a/tests/forgotten.rs"]);
}
