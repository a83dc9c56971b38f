//! The modules of a crate form no circle, so that each file can be read and changed with only what it imports. An import through a
//! re-export counts as one of the module that re-exports. Reads sources, builds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use crate::structure;

/// A module as the names on the way to it; the crate itself is empty.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn the_modules_of_a_crate_form_no_circle() {
    let mut wrong = String::new();
    for (name, root) in crates() {
        let imports = imports(&sources(&root));
        if let Some(circle) = circle(&imports) {
            _ = writeln!(wrong, "{name} has a circle: {}\n{}", circle.join(", "), order(&imports));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_crate_of_the_workspace_is_read() {
    let found = crates();
    assert!(found.len() > 15, "{found:?}");
    assert!(found.contains_key("bench") && found.contains_key("fairway"), "{found:?}");
    for (name, root) in found {
        assert!(sources(&root).contains_key(&Module::new()), "the modules of {name} were found");
    }
}

#[test]
fn a_circle_is_found_through_a_re_export_and_a_parent() {
    let straight = [source("lib", "mod a; mod b;"), source("a", "use crate::b::B;"), source("b", "")];
    assert_eq!(circle(&imports(&straight.into())), None);
    let through_lib = [source("lib", "mod a; mod b; pub use b::B;"), source("b", "use crate::B;")];
    assert!(circle(&imports(&through_lib.into())).is_some());
    let parent = [source("a", "mod b; use b::B;"), source("a/b", "use super::A;")];
    assert!(circle(&imports(&parent.into())).is_some());
    let path = [source("a", "fn f() { crate::b::g() }"), source("b", "use crate::{a::f, c};")];
    assert!(circle(&imports(&path.into())).is_some());
    let macros = [
        source("a", "fn f() { println!(\"{}\", crate::b::g()) }"),
        source("b", "#[arg(value_parser = crate::a::f)] struct S;"),
    ];
    assert!(circle(&imports(&macros.into())).is_some());
    let visible = [source("a", "use self::b::B;"), source("a/b", "pub(in crate::a) struct B;")];
    assert_eq!(circle(&imports(&visible.into())), None);
    let tests = [source("a", "#[cfg(test)] mod tests { use crate::b; }"), source("b", "use crate::a;")];
    assert_eq!(circle(&imports(&tests.into())), None);
}

#[test]
fn only_what_is_in_the_circle_is_named() {
    let around = [
        source("above", "use crate::a;"),
        source("a", "use crate::b;"),
        source("b", "use crate::{a, below};"),
        source("below", ""),
    ];
    assert_eq!(circle(&imports(&around.into())), Some(vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn the_order_of_imports_puts_each_module_above_what_it_imports() {
    let three =
        [source("b", "use crate::a;"), source("a", "use crate::c;"), source("c", ""), source("d", "")];
    assert_eq!(order(&imports(&three.into())), "  b\n  a\n  c, d\n");
    let circle = [source("a", "use crate::b;"), source("b", "use crate::{a, c};"), source("c", "")];
    assert_eq!(order(&imports(&circle.into())), "  in a circle or above one: a, b\n  c\n");
}

fn source(module: &str, text: &str) -> (Module, String) {
    (module_of(module), text.to_owned())
}

/// The folder of the sources of each crate of the workspace, by the name of the crate's folder.
fn crates() -> BTreeMap<String, PathBuf> {
    let named =
        |folder: PathBuf| (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder.join("src"));
    structure::crates().into_iter().map(named).collect()
}

/// The source of each module of a crate. The programs of a library, which see only what it publishes, are left out.
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

/// Whether it is compiled for tests only, which may look at everything.
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

/// The modules in layers, each of which imports only from the layers before it; and those that are left, which are in a
/// circle or import from one.
fn layers(imports: &Imports) -> (Vec<Vec<&Module>>, BTreeSet<&Module>) {
    let mut left: BTreeSet<&Module> = imports.keys().collect();
    let mut layers = Vec::new();
    loop {
        let is_free = |module: &&&Module| !imports[**module].iter().any(|imported| left.contains(imported));
        let free: Vec<&Module> = left.iter().filter(is_free).copied().collect();
        if free.is_empty() {
            return (layers, left);
        }
        left.retain(|module| !free.contains(module));
        layers.push(free);
    }
}

/// The modules of the circles, if there are any.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let (_, mut left) = layers(imports);
    loop {
        let imported: BTreeSet<&Module> = left.iter().flat_map(|module| &imports[*module]).collect();
        let before = left.len();
        left.retain(|module| imported.contains(module));
        if left.len() == before {
            return (before > 0).then(|| left.into_iter().map(shown).collect());
        }
    }
}

/// The order of imports as lines, each of which imports only from the lines below it.
fn order(imports: &Imports) -> String {
    let (layers, left) = layers(imports);
    let listed = |modules: Vec<&Module>| modules.into_iter().map(shown).collect::<Vec<_>>().join(", ");
    let mut order = String::new();
    if !left.is_empty() {
        _ = writeln!(order, "  in a circle or above one: {}", listed(left.into_iter().collect()));
    }
    for layer in layers.into_iter().rev() {
        _ = writeln!(order, "  {}", listed(layer));
    }
    order
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "the crate's root".to_owned() } else { module.join("::") }
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

    /// The paths among tokens that have no syntax yet: what stands in a macro or an attribute.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 2;
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.found(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.tokens(&group.stream());
                    colons = 3;
                }
                _ => colons = 3,
            }
        }
        self.found(path);
    }

    /// A name alone says nothing about where it is.
    fn found(&mut self, path: Vec<String>) {
        if path.len() > 1 {
            self.0.push(path);
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

    /// To whom something is visible is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        self.tokens(&of.tokens);
        syn::visit::visit_macro(self, of);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(&list.tokens);
        syn::visit::visit_meta_list(self, list);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.found(names);
        syn::visit::visit_path(self, path);
    }
}
