//! Decodes the text of a manifest file: documents -> Kubernetes objects, each with its line.
//!
//! An unreadable document never affects its neighbours: [`split`] cuts the text, [`mod@parse`] builds a tree of nodes with line
//! numbers, [`decode`] converts a tree to a typed object and names fields that do not fit, [`object`] decodes the kinds of the
//! table [`crate::kinds`]; `salvage` salvages the targets of a policy that cannot be decoded. Never accesses the file system.

pub mod decode;
pub mod node;
pub mod object;
pub mod parse;
mod salvage;
mod scalar;
pub mod split;

pub use node::{Entry, Node, Value};
pub use object::{ReadDocument, line_diagnostic, read};
pub use parse::{ManifestError, parse, parse_single};
pub use scalar::Schema;
pub use split::{Section, sections};
