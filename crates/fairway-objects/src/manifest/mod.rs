//! Text of a manifest file -> documents -> Kubernetes objects, each with the line it stands on.
//!
//! One document that cannot be read never costs its neighbours: [`split`] cuts the text, [`mod@parse`] makes a tree of
//! nodes that know their lines, [`decode`] turns a tree into a typed object and names the field that does not fit,
//! [`object`] reads the kinds that the table [`crate::kinds`] has; `remains` says what a SecurityPolicy that cannot be decoded
//! is for. Never touches the file system.

pub mod decode;
pub mod node;
pub mod object;
pub mod parse;
mod remains;
mod scalar;
pub mod split;

pub use node::{Entry, Node, Value};
pub use object::{Reading, about_line, read};
pub use parse::{Flaw, parse, parse_single};
pub use scalar::Schema;
pub use split::{Section, sections};
