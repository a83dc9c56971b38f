//! From a tree to the form that automata are built from.

use regex_syntax::hir::{Capture, Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use crate::refusal::Refusal;
use crate::set::Set;
use crate::syntax::{Assertion, Node};

/// `node` at the start of a text.
pub(crate) fn anchored(node: &Node) -> Hir {
    Hir::concat(vec![Hir::look(Look::Start), lowered(node)])
}

/// What nginx makes of `location ~* "^a|b"`: only the first branch is held to the start.
pub(crate) fn after_circumflex(branches: &[Node]) -> Hir {
    let branches = branches.iter().enumerate().map(|(number, branch)| match number {
        0 => anchored(branch),
        _ => anchored(&Node::Concat(vec![Node::anything(), branch.clone()])),
    });
    Hir::alternation(branches.collect())
}

/// The branches anywhere in a text, as early as possible; the first of several at one place.
pub(crate) fn anywhere(branches: &[Node]) -> Hir {
    let branches = branches.iter().map(lowered).collect();
    Hir::concat(vec![Hir::look(Look::Start), lowered(&Node::anything()), Hir::alternation(branches)])
}

/// The branches over a whole text.
pub(crate) fn whole(branches: &[Node]) -> Hir {
    let branches = branches.iter().map(lowered).collect();
    Hir::concat(vec![Hir::look(Look::Start), Hir::alternation(branches), Hir::look(Look::End)])
}

/// Refuses what would have to match after `$` or `\Z`: that could only be the last line feed.
///
/// This is why `$` can be lowered to "a line feed or nothing, and then the end": whatever stands behind it matches nothing.
pub(crate) fn check_ends(node: &Node) -> Result<(), Refusal> {
    if check(node, true) { Ok(()) } else { Err(Refusal::because("nothing but the end may follow $ or \\Z")) }
}

/// Whether it is so in `node`; `free` says whether what follows can match nothing.
fn check(node: &Node, free: bool) -> bool {
    match node {
        Node::Assert(Assertion::EndOrLastLine) => free,
        Node::Empty | Node::Byte(_) | Node::Assert(_) => true,
        Node::Concat(parts) => parts
            .iter()
            .rev()
            .try_fold(free, |free, part| {
                let optional = part.is_optional() || *part == Node::Assert(Assertion::EndOrLastLine);
                check(part, free).then_some(free && optional)
            })
            .is_some(),
        Node::Alternation(parts) => parts.iter().all(|part| check(part, free)),
        Node::Repeat { node, max, .. } => check(node, free && *max == Some(1)),
        Node::Capture(_, node) | Node::Look { node, .. } => check(node, free),
    }
}

fn lowered(node: &Node) -> Hir {
    match node {
        Node::Empty => Hir::empty(),
        Node::Byte(set) => byte(*set),
        Node::Concat(parts) => Hir::concat(parts.iter().map(lowered).collect()),
        Node::Alternation(parts) => Hir::alternation(parts.iter().map(lowered).collect()),
        Node::Repeat { node, min, max, greedy } => {
            let sub = Box::new(lowered(node));
            Hir::repetition(Repetition { min: *min, max: *max, greedy: *greedy, sub })
        }
        Node::Capture(index, node) => {
            Hir::capture(Capture { index: *index, name: None, sub: Box::new(lowered(node)) })
        }
        Node::Assert(Assertion::Start) => Hir::look(Look::Start),
        Node::Assert(Assertion::End) => Hir::look(Look::End),
        Node::Assert(Assertion::EndOrLastLine) => {
            let line_feed =
                Repetition { min: 0, max: Some(1), greedy: true, sub: Box::new(byte(Set::of(b'\n'))) };
            Hir::concat(vec![Hir::repetition(line_feed), Hir::look(Look::End)])
        }
        Node::Assert(Assertion::Word) => Hir::look(Look::WordAscii),
        Node::Assert(Assertion::NotWord) => Hir::look(Look::WordAsciiNegate),
        Node::Look { .. } => unreachable!("look-around has become clauses"),
    }
}

fn byte(set: Set) -> Hir {
    let ranges = set.ranges().into_iter().map(|(first, last)| ClassBytesRange::new(first, last));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}
