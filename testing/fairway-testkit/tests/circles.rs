//! A crate's modules have no import cycles, so that each file can be read and changed knowing only its imports. An import
//! through a re-export counts as one of the re-exporting module. Reads sources, builds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::structure;

/// A module as the names on the way to it; the crate itself is empty.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn the_modules_of_a_crate_form_no_circle() {
    let crates = structure::crates();
    assert!(crates.len() > 15, "{crates:?}");
    let mut wrong = String::new();
    for root in crates.iter().map(|folder| folder.join("src")) {
        let sources = sources(&root);
        assert!(sources.contains_key(&Module::new()), "the modules in {} were found", root.display());
        if let Some(circle) = circle(&imports(&sources)) {
            _ = writeln!(wrong, "{} has a circle: {}", root.display(), circle.join(", "));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn a_circle_is_found_through_a_re_export_and_a_parent() {
    // Modules with their sources, and the circle among them.
    type Case = (&'static [(&'static str, &'static str)], Option<&'static str>);
    let cases: [Case; 9] = [
        (&[("lib", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "")], None),
        (&[("lib", "mod a; mod b; pub use b::B;"), ("b", "use crate::B;")], Some("the crate's root, b")),
        (&[("a", "mod b; use b::B;"), ("a/b", "use super::A;")], Some("a, a::b")),
        (&[("a", "fn f() { crate::b::g() }"), ("b", "use crate::{a::f, c};")], Some("a, b")),
        (&[("a", "fn f() { println!(\"{}\", crate::b::g()) }"), ("b", "use crate::a;")], Some("a, b")),
        (&[("a", "use crate::b;"), ("b", "#[arg(value_parser = crate::a::f)] struct S;")], Some("a, b")),
        (&[("a", "use self::b::B;"), ("a/b", "pub(in crate::a) struct B;")], None),
        (&[("a", "#[cfg(test)] mod tests { use crate::b; }"), ("b", "use crate::a;")], None),
        // Names only the modules in the cycle.
        (
            &[
                ("above", "use crate::a;"),
                ("a", "use crate::b;"),
                ("b", "use crate::{a, below};"),
                ("below", ""),
            ],
            Some("a, b"),
        ),
    ];
    for (sources, expected) in cases {
        let read = sources.iter().map(|(module, text)| (module_of(module), (*text).to_owned()));
        let found = circle(&imports(&read.collect())).map(|circle| circle.join(", "));
        assert_eq!(found.as_deref(), expected, "{sources:?}");
    }
}

/// The source of each module of a crate. A library's binaries are left out: they see only its public items.
fn sources(root: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path == root.join("bin") || path == root.join("main.rs") && root.join("lib.rs").exists() {
                continue;
            }
            let module = path.strip_prefix(root).unwrap().with_extension("");
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_for_tests(&module) {
                found.insert(module_of(module.to_str().unwrap()), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Whether it is compiled only for tests, which may import anything.
fn is_for_tests(module: &Path) -> bool {
    let is_tests = |name: &str| name == "testing" || name.ends_with("tests");
    module.components().any(|part| part.as_os_str().to_str().is_some_and(is_tests))
}

fn module_of(path: &str) -> Module {
    path.split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main")).map(str::to_owned).collect()
}

/// The modules that each module imports.
fn imports(sources: &BTreeMap<Module, String>) -> Imports {
    let read = |(module, text): (&Module, &String)| {
        let mut paths = Paths::default();
        paths.read(text.parse().unwrap(), &[]);
        let imported = paths.0.iter().filter_map(|path| resolve(module, path, sources));
        (module.clone(), imported.filter(|imported| imported != module).collect())
    };
    sources.iter().map(read).collect()
}

/// The module that a path leads to, if it leads into this crate.
fn resolve(from: &Module, path: &[String], sources: &BTreeMap<Module, String>) -> Option<Module> {
    let mut base = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Module::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        child => {
            base.push(child.to_owned());
            rest = &path[1..];
            if !sources.contains_key(&base) {
                return None;
            }
        }
    }
    for part in rest {
        base.push(part.clone());
        if !sources.contains_key(&base) {
            base.pop();
            break;
        }
    }
    Some(base)
}

/// The modules in cycles: all except those that import none of the others and those that none of the others import.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut remaining: BTreeSet<&Module> = imports.keys().collect();
    loop {
        let before = remaining.clone();
        let imported: BTreeSet<&Module> = remaining.iter().flat_map(|module| &imports[*module]).collect();
        remaining.retain(|module| {
            imported.contains(module) && imports[*module].iter().any(|imported| before.contains(imported))
        });
        if remaining == before {
            return (!remaining.is_empty()).then(|| remaining.into_iter().map(shown).collect());
        }
    }
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "the crate's root".to_owned() } else { module.join("::") }
}

/// The paths that a file imports or names, outside of its tests, as its tokens have them: in macros and attributes, too.
#[derive(Default)]
struct Paths(Vec<Module>);

impl Paths {
    /// Reads tokens; within the braces of an import each name continues what stands `before` them.
    fn read(&mut self, tokens: TokenStream, before: &[String]) {
        let (mut path, mut colons, mut is_cfg) = (before.to_vec(), 0, false);
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            if matches!(&token, TokenTree::Punct(mark) if mark.as_char() == ':') {
                colons += 1;
                continue;
            }
            let goes_on = std::mem::take(&mut colons) == 2;
            let ended = match &token {
                TokenTree::Ident(_) if goes_on => None,
                TokenTree::Group(group) if goes_on && group.delimiter() == Delimiter::Brace => None,
                _ => Some(std::mem::replace(&mut path, before.to_vec())),
            };
            // A bare name does not tell its module.
            self.0.extend(ended.filter(|path| path != before && (goes_on || path.len() > 1)));
            match token {
                TokenTree::Ident(name) if name == "as" => drop(tokens.next()),
                // To whom something is visible is no import.
                TokenTree::Ident(name) if name == "pub" => {
                    tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
                }
                TokenTree::Ident(name) if name == "mod" && is_cfg => drop((tokens.next(), tokens.next())),
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Group(group) => {
                    let of_path = std::mem::replace(&mut path, before.to_vec());
                    self.read(group.stream(), if goes_on { &of_path } else { &[] });
                    let is_attribute = group.delimiter() == Delimiter::Bracket;
                    is_cfg = is_attribute && (is_cfg || group.stream().to_string().starts_with("cfg"));
                }
                TokenTree::Punct(mark) => is_cfg &= mark.as_char() == '#',
                TokenTree::Literal(_) => {}
            }
        }
        self.0.extend(Some(path).filter(|path| path != before && path.len() > 1));
    }
}
