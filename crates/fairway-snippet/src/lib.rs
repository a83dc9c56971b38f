//! Translates nginx configuration from `*-snippet` annotations into typed values of the model.
//!
//! A snippet is parsed (`syntax`), its headers and addresses are read (`level`), its rewrite phase is evaluated for
//! all requests symbolically (`program`, `symbolic_state`, `value`, `map`), and the result becomes part of rules (`edits`,
//! `path`, `host`) or of auth requests (`auth_request`). Anything without exactly nginx's meaning is a problem with its
//! line and rejects the whole snippet. No text of it becomes program configuration, and nothing is executed.

mod auth_request;
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
mod symbolic_state;
mod syntax;
mod value;

pub use auth_request::{AuthSnippet, auth_snippet};
pub use edits::HeaderUses;
pub use host::{HostSnippet, HttpSnippet, RulePaths, host_snippet, http_snippet};
pub use map::Maps;
pub use path::{PathSnippet, ReplacementScope, path_snippet};
pub use problem::Problem;
pub use syntax::{Directive, parse_directives};
