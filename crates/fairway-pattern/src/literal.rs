//! The text with which every match of a pattern begins: it lets most patterns of a long list be passed over at the cost of
//! one comparison.

use crate::set::Set;
use crate::syntax::{Assertion, Node};

/// What every match of a pattern begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// In lower case, to be compared without case.
    pub(crate) text: Vec<u8>,
    /// Whether whatever begins like this matches.
    pub(crate) is_all: bool,
}

/// The start of every match of `branches`.
pub(crate) fn start(branches: &[Node]) -> Start {
    let [only] = branches else { return Start::default() };
    let mut parts = Vec::new();
    flatten(only, &mut parts);
    let mut start = Start { text: Vec::new(), is_all: true };
    let mut rest = parts.into_iter().peekable();
    while let Some(part) = rest.peek() {
        match part {
            Node::Assert(Assertion::Start) if start.text.is_empty() => {}
            Node::Byte(set) => {
                let Some(byte) = letter(*set) else { break };
                start.is_all &= Set::of(byte).without_case() == *set;
                start.text.push(byte);
            }
            _ => break,
        }
        rest.next();
    }
    start.is_all &= rest.all(Node::is_optional);
    start
}

/// The parts that follow each other, groups or not.
fn flatten<'n>(node: &'n Node, parts: &mut Vec<&'n Node>) {
    match node {
        Node::Concat(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        Node::Capture(_, inner) => flatten(inner, parts),
        other => parts.push(other),
    }
}

/// The byte that a set is, its case apart, in lower case.
fn letter(set: Set) -> Option<u8> {
    let first = (0..=255u8).find(|byte| set.has(*byte))?;
    let alone = set == Set::of(first) || set == Set::of(first).without_case();
    alone.then(|| first.to_ascii_lowercase())
}
