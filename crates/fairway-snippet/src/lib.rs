//! Pieces of nginx configuration, as `*-snippet` annotations have them, as typed values of the model.
//!
//! A snippet is read (`syntax`), its headers and addresses become values (`level`), its rewrite phase is run for all requests at once
//! (`program`, `world`, `value`, `map`), and the result is what rules do (`edits`, `path`, `host`). Whatever has not exactly the
//! meaning that nginx gives it is a problem with its line, and then the snippet as a whole is left out. Nothing of its text becomes
//! configuration of a program, and nothing is run.
//!
//! No Ingress is served by it yet: some snippets that it accepts differ from nginx (conditions on header fields that `Connection` names,
//! maps with an empty value, named captures, names of cookies). Only `fairway migrate` reads with it.

mod cost;
mod edits;
mod host;
mod level;
mod map;
mod own_fields;
mod path;
mod problem;
mod program;
mod syntax;
mod value;
mod world;

pub use host::{HostSnippet, HttpSnippet, RulePaths, host_snippet, http_snippet};
pub use map::Maps;
pub use path::{PathSnippet, path_snippet};
pub use problem::Problem;
pub use syntax::{Directive, directives};
