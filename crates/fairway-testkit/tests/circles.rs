//! The modules of a crate form no circle: each file of the crates listed here can be read and changed with only what it
//! imports. An import through a re-export counts as one of the module that re-exports. Reads sources, builds nothing.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::Visit;

/// The crates whose modules form no circle.
const WITHOUT_CIRCLES: &[&str] = &[
    "fairway-http1",
    "fairway-message",
    "fairway-model",
    "fairway-proxy",
    "fairway-routing",
    "fairway-translate",
];

/// A module as the names on the way to it; the crate itself is empty.
type Module = Vec<String>;

#[test]
fn the_modules_of_a_crate_form_no_circle() {
    for name in WITHOUT_CIRCLES {
        let imports = imports(&sources(name));
        assert!(imports.len() > 10, "the modules of {name} were found");
        assert_eq!(circle(&imports), None, "{name}");
    }
}

#[test]
fn a_circle_is_found_through_a_re_export_and_a_parent() {
    let source = |module: &str, text: &str| (module_of(module), text.to_owned());
    let straight = [source("lib", "mod a; mod b;"), source("a", "use crate::b::B;"), source("b", "")];
    assert_eq!(circle(&imports(&straight.into())), None);
    let through_lib = [source("lib", "mod a; mod b; pub use b::B;"), source("b", "use crate::B;")];
    assert!(circle(&imports(&through_lib.into())).is_some());
    let parent = [source("a", "mod b; use b::B;"), source("a/b", "use super::A;")];
    assert!(circle(&imports(&parent.into())).is_some());
    let path = [source("a", "fn f() { crate::b::g() }"), source("b", "use crate::{a::f, c};")];
    assert!(circle(&imports(&path.into())).is_some());
    let tests = [source("a", "#[cfg(test)] mod tests { use crate::b; }"), source("b", "use crate::a;")];
    assert_eq!(circle(&imports(&tests.into())), None);
}

/// The source of each module of a crate.
fn sources(name: &str) -> BTreeMap<Module, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_for_tests(&path) {
                let module = path.strip_prefix(&root).unwrap().with_extension("");
                found.insert(module_of(module.to_str().unwrap()), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Whether it is compiled for tests only, which may look at everything.
fn is_for_tests(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "testing" || stem.to_string_lossy().ends_with("tests"))
}

fn module_of(path: &str) -> Module {
    path.split('/').filter(|part| !matches!(*part, "mod" | "lib")).map(str::to_owned).collect()
}

/// The modules that each module imports.
fn imports(sources: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let read = |(module, text): (&Module, &String)| {
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(text).unwrap());
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

/// The modules of a circle, if there is one.
fn circle(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<String>> {
    let mut left: BTreeSet<&Module> = imports.keys().collect();
    loop {
        let is_free = |module: &&&Module| !imports[**module].iter().any(|imported| left.contains(imported));
        let free: Vec<&Module> = left.iter().filter(is_free).copied().collect();
        if free.is_empty() {
            let names = left.iter().map(|module| module.join("::")).collect::<Vec<_>>();
            return (!names.is_empty()).then_some(names);
        }
        for module in free {
            left.remove(module);
        }
    }
}

/// The paths that a file imports or names, outside of its tests.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    fn tree(&mut self, mut before: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(before, &path.tree);
            }
            syn::UseTree::Name(name) => self.0.push([before, vec![name.ident.to_string()]].concat()),
            syn::UseTree::Rename(name) => self.0.push([before, vec![name.ident.to_string()]].concat()),
            syn::UseTree::Glob(_) => self.0.push(before),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.tree(before.clone(), item));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.0.push(names);
        }
        syn::visit::visit_path(self, path);
    }
}
