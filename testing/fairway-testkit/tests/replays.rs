//! Everything that looks like a test runs: inputs of fuzz targets are replayed by an ordinary test, and a file in a folder of
//! tests is a module of the program that cargo builds. Reads sources, builds nothing.

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
    let whole = format!("fuzz/corpus/{target}\"");
    let joined = || text.contains("fuzz/corpus\"") && text.contains(&format!("(\"{target}\""));
    text.contains("#[test]") && (text.contains(&whole) || joined())
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

/// With `autotests = false` cargo builds only what the manifest names; a file that is not a module of it never runs.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let sources = sources();
    let mut wrong = String::new();
    let mut seen = 0;
    for place in crates() {
        let text = fs::read_to_string(place.join("Cargo.toml")).unwrap();
        if !text.contains("autotests = false") {
            continue;
        }
        seen += 1;
        let folder = format!("{}/tests/", place.strip_prefix(root()).unwrap().display());
        let programs: Vec<_> = text.lines().filter_map(|line| path_of_test(line, &folder)).collect();
        let reached = reached(&programs, &sources);
        let of_crate = sources.iter().filter(|source| source.name.starts_with(&folder));
        for source in of_crate.filter(|source| !reached.contains(&source.name)) {
            _ = writeln!(wrong, "{}: no test program has it as a module, so it does not run", source.name);
        }
    }
    assert!(seen > 5, "the crates were found");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The file of a `path = "tests/..."` in a manifest.
fn path_of_test(line: &str, folder: &str) -> Option<String> {
    let file = line.strip_prefix("path = \"tests/")?.strip_suffix('"')?;
    Some(format!("{folder}{file}"))
}

/// The files of these programs and of all modules below them.
fn reached(programs: &[String], sources: &[Source]) -> BTreeSet<String> {
    let (mut reached, mut left) = (BTreeSet::new(), programs.to_vec());
    while let Some(name) = left.pop() {
        let Some(source) = sources.iter().find(|source| source.name == name) else { continue };
        if reached.insert(name.clone()) {
            left.extend(modules(source, programs.contains(&name)));
        }
    }
    reached
}

/// Where the modules that a file declares may be.
fn modules(source: &Source, is_root: bool) -> Vec<String> {
    let path = Path::new(&source.name);
    let folder = path.parent().unwrap();
    let own = match is_root || path.file_name().is_some_and(|name| name == "mod.rs") {
        true => folder.to_path_buf(),
        false => path.with_extension(""),
    };
    let mut found = Vec::new();
    let mut add = |path: std::path::PathBuf| found.push(path.to_str().unwrap().to_owned());
    for item in syn::parse_file(&source.text).unwrap().items {
        let syn::Item::Mod(module) = item else { continue };
        let said = module.attrs.iter().filter(|it| it.path().is_ident("path")).find_map(literal);
        match said {
            Some(said) => add(folder.join(said)),
            None => {
                let name = module.ident.to_string();
                add(own.join(&name).with_extension("rs"));
                add(own.join(&name).join("mod.rs"));
            }
        }
    }
    found
}

/// The text of `#[path = "..."]`.
fn literal(attribute: &syn::Attribute) -> Option<String> {
    let syn::Expr::Lit(value) = &attribute.meta.require_name_value().ok()?.value else { return None };
    match &value.lit {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

#[test]
fn modules_are_looked_for_where_rust_does() {
    let source =
        |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned(), is_test: true };
    let sources = [
        source("a/tests/main.rs", "mod one; #[path = \"else/where.rs\"] mod two;"),
        source("a/tests/one.rs", "mod below;"),
        source("a/tests/one/below.rs", ""),
        source("a/tests/else/where.rs", ""),
        source("a/tests/forgotten.rs", ""),
    ];
    let reached = reached(&["a/tests/main.rs".to_owned()], &sources);
    let expected = ["a/tests/else/where.rs", "a/tests/main.rs", "a/tests/one.rs", "a/tests/one/below.rs"];
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), expected);
}
