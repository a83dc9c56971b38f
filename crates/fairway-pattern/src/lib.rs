//! Regular expressions of configuration: what PCRE means by them in nginx, at a cost that is known before the first request.
//!
//! A pattern is read (`parse`, `class`) into a tree (`syntax`), its look-around becomes "match and not match" (`look`,
//! `clauses`), and each part becomes a deterministic automaton (`lower`, `automaton`, `way`): a match costs one step for
//! each byte of the text, and nothing is built, cached or allocated while requests are served. Only what a rewrite needs
//! of a match, its groups, is found by another `engine` (`finder`), for the one pattern that decided. What cannot be had
//! at that price, or is not understood for certain, is refused with its reason, and [`literal_start`] says which paths it can be meant for. [`budget`] adds
//! up what a host has.

mod automaton;
pub mod budget;
mod class;
mod clauses;
mod cost;
mod cursor;
mod engine;
mod finder;
mod literal;
mod look;
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
pub use finder::{Finder, Found, GroupBuffer};
pub use pattern::Pattern;
pub use refusal::Refusal;
pub use sample::{Optional, sample};
pub use start::{literal_pattern, literal_start};
pub use way::Anchor;
