//! Lowers a tree to the form that automata are built from.

use regex_syntax::hir::{Capture, Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use crate::refusal::Refusal;
use crate::set::ByteSet;
use crate::syntax::{Assertion, Node};

/// `node`, anchored at the start of the text.
pub(crate) fn anchored(node: &Node) -> Hir {
    Hir::concat(vec![Hir::look(Look::Start), lower(node)])
}

/// nginx's interpretation of `location ~* "^a|b"`: only the first branch is anchored.
pub(crate) fn after_circumflex(branches: &[Node]) -> Hir {
    let branches = branches.iter().enumerate().map(|(number, branch)| match number {
        0 => anchored(branch),
        _ => anchored(&Node::Concat(vec![Node::anything(), branch.clone()])),
    });
    Hir::alternation(branches.collect())
}

/// The branches anywhere in a text, as early as possible; the first one that matches at a position.
pub(crate) fn anywhere(branches: &[Node]) -> Hir {
    let branches = branches.iter().map(lower).collect();
    Hir::concat(vec![Hir::look(Look::Start), lower(&Node::anything()), Hir::alternation(branches)])
}

/// The branches, matching the whole text.
pub(crate) fn whole_text(branches: &[Node]) -> Hir {
    let branches = branches.iter().map(lower).collect();
    Hir::concat(vec![Hir::look(Look::Start), Hir::alternation(branches), Hir::look(Look::End)])
}

/// Rejects patterns in which something has to match after `$` or `\Z`. It could only be the final line feed, because both
/// match before it.
///
/// This allows lowering `$` to "an optional line feed, then the end": everything after it matches the empty text.
pub(crate) fn check_ends(node: &Node) -> Result<(), Refusal> {
    if has_only_final_ends(node, true) {
        Ok(())
    } else {
        Err(Refusal::because("nothing but the end may follow $ or \\Z"))
    }
}

/// Whether nothing has to match after a `$` or `\Z` in `node`; `free` says whether what follows `node` can be empty.
fn has_only_final_ends(node: &Node, free: bool) -> bool {
    match node {
        Node::Assert(Assertion::EndOrLastLine) => free,
        Node::Empty | Node::Byte(_) | Node::Assert(_) => true,
        Node::Concat(parts) => parts
            .iter()
            .rev()
            .try_fold(free, |free, part| {
                let optional = part.is_optional() || *part == Node::Assert(Assertion::EndOrLastLine);
                has_only_final_ends(part, free).then_some(free && optional)
            })
            .is_some(),
        Node::Alternation(parts) => parts.iter().all(|part| has_only_final_ends(part, free)),
        Node::Repeat { node, max, .. } => has_only_final_ends(node, free && *max == Some(1)),
        Node::Capture(_, node) | Node::Look { node, .. } => has_only_final_ends(node, free),
    }
}

fn lower(node: &Node) -> Hir {
    match node {
        Node::Empty => Hir::empty(),
        Node::Byte(set) => byte_class(*set),
        Node::Concat(parts) => Hir::concat(parts.iter().map(lower).collect()),
        Node::Alternation(parts) => Hir::alternation(parts.iter().map(lower).collect()),
        Node::Repeat { node, min, max, greedy } => {
            let sub = Box::new(lower(node));
            Hir::repetition(Repetition { min: *min, max: *max, greedy: *greedy, sub })
        }
        Node::Capture(index, node) => {
            Hir::capture(Capture { index: *index, name: None, sub: Box::new(lower(node)) })
        }
        Node::Assert(Assertion::Start) => Hir::look(Look::Start),
        Node::Assert(Assertion::End) => Hir::look(Look::End),
        Node::Assert(Assertion::EndOrLastLine) => {
            let line_feed = Repetition {
                min: 0,
                max: Some(1),
                greedy: true,
                sub: Box::new(byte_class(ByteSet::single(b'\n'))),
            };
            Hir::concat(vec![Hir::repetition(line_feed), Hir::look(Look::End)])
        }
        Node::Assert(Assertion::Word) => Hir::look(Look::WordAscii),
        Node::Assert(Assertion::NotWord) => Hir::look(Look::WordAsciiNegate),
        Node::Look { .. } => unreachable!("look-around was turned into clauses before"),
    }
}

fn byte_class(set: ByteSet) -> Hir {
    let ranges = set.ranges().into_iter().map(|(first, last)| ClassBytesRange::new(first, last));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}
