//! Pieces of nginx configuration, as `*-snippet` annotations have them, as typed values of the model.
//!
//! A snippet is read (`syntax`), its headers and addresses become values (`level`), its rewrite phase is run for all requests at once
//! (`program`, `world`, `value`, `map`), and the result is what rules do (`edits`, `path`, `host`), or what a service is asked (`question`). Whatever has not exactly the
//! meaning that nginx gives it is a problem with its line, and then the snippet as a whole is left out. Nothing of its text becomes
//! configuration of a program, and nothing is run.

mod cost;
mod edits;
mod host;
mod level;
mod map;
mod own_fields;
mod own_variables;
mod path;
mod problem;
mod program;
mod question;
mod syntax;
mod value;
mod world;

pub use edits::Uses;
pub use host::{HostSnippet, HttpSnippet, RulePaths, host_snippet, http_snippet};
pub use map::Maps;
pub use path::{PathSnippet, Replaces, path_snippet};
pub use problem::Problem;
pub use question::{QuestionSnippet, question_snippet};
pub use syntax::{Directive, directives};
