//! The literal prefix of a pattern: most patterns of a long list are skipped after one comparison.

use crate::set::ByteSet;
use crate::syntax::{Assertion, Node};

/// The literal prefix of a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiteralStart {
    /// In lower case, for case-insensitive comparison.
    pub(crate) text: Vec<u8>,
    /// Whether everything with this prefix matches.
    pub(crate) is_all: bool,
}

/// The common prefix of all matches of `branches`.
pub(crate) fn common_start(branches: &[Node]) -> LiteralStart {
    let [only] = branches else { return LiteralStart::default() };
    let mut parts = Vec::new();
    flatten(only, &mut parts);
    let mut start = LiteralStart { text: Vec::new(), is_all: true };
    let mut rest = parts.into_iter().peekable();
    while let Some(part) = rest.peek() {
        match part {
            Node::Assert(Assertion::Start) if start.text.is_empty() => {}
            Node::Byte(set) => {
                let Some(byte) = single_letter(*set) else { break };
                start.is_all &= ByteSet::single(byte).without_case() == *set;
                start.text.push(byte);
            }
            _ => break,
        }
        rest.next();
    }
    start.is_all &= rest.all(Node::is_optional);
    start
}

/// Flattens concatenations and groups.
fn flatten<'n>(node: &'n Node, parts: &mut Vec<&'n Node>) {
    match node {
        Node::Concat(inner) => inner.iter().for_each(|part| flatten(part, parts)),
        Node::Capture(_, inner) => flatten(inner, parts),
        other => parts.push(other),
    }
}

/// The single byte of a set, ignoring case, in lower case.
fn single_letter(set: ByteSet) -> Option<u8> {
    let first = (0..=255u8).find(|byte| set.contains(*byte))?;
    let alone = set == ByteSet::single(first) || set == ByteSet::single(first).without_case();
    alone.then(|| first.to_ascii_lowercase())
}
