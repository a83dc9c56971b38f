//! Regular expressions from the configuration, with the meaning that PCRE gives them in nginx and a cost known in
//! advance.
//!
//! A pattern is parsed (`parse`, `class`) into a tree (`syntax`), its look-around becomes "match and not match"
//! (`look_around`, `clauses`), and each part becomes a DFA (`lower`, `automaton`, `way`): a match costs one step per byte of
//! text, and nothing is built, cached or allocated while requests are served. Only the capture groups for rewrites
//! need another `engine` (`finder`), for the one pattern that was selected. Patterns that cannot be compiled at that
//! cost, or whose meaning is uncertain, are rejected with a reason, and [`literal_start`] says which paths they could
//! match. [`budget`] limits the total cost of a host.

mod automaton;
pub mod budget;
mod class;
mod clauses;
mod cost;
mod cursor;
mod engine;
mod finder;
mod literal;
mod look_around;
mod lower;
#[cfg(test)]
mod naive;
mod parse;
mod pattern;
mod plain;
mod refusal;
mod sample;
mod set;
mod shared;
mod start;
mod syntax;
#[cfg(test)]
mod tests;
mod way;

pub use clauses::has_alternatives;
pub use cost::{Cost, LONGEST_TEXT};
pub use finder::{Finder, GroupBuffer, GroupMatches};
pub use pattern::Pattern;
pub use refusal::Refusal;
pub use sample::{OptionalPart, sample};
pub use start::{literal_pattern, literal_start};
pub use way::Anchor;
