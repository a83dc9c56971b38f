//! A slow, obvious backtracking matcher that tests compare the automata with.

use crate::parse;
use crate::set::ByteSet;
use crate::syntax::{Assertion, LookDirection, Node};

/// Whether `^pattern` matches `text`, as nginx combines them: only the first branch is anchored.
pub(crate) fn is_match(pattern: &str, ignore_case: bool, text: &[u8]) -> bool {
    let branches = parse::parse(pattern, ignore_case).expect("the pattern is one that can be used").branches;
    branches.iter().enumerate().any(|(number, branch)| {
        let starts = if number == 0 { 0..=0 } else { 0..=text.len() };
        starts.into_iter().any(|start| matches(branch, text, start, &mut |_| true))
    })
}

/// Whether `node` matches from `at`, and `then` accepts the end of the match.
fn matches(node: &Node, text: &[u8], at: usize, then: &mut dyn FnMut(usize) -> bool) -> bool {
    match node {
        Node::Empty => then(at),
        Node::Byte(set) => text.get(at).is_some_and(|byte| set.contains(*byte)) && then(at + 1),
        Node::Concat(parts) => match parts.split_first() {
            None => then(at),
            Some((first, rest)) => {
                let rest = Node::Concat(rest.to_vec());
                matches(first, text, at, &mut |end| matches(&rest, text, end, then))
            }
        },
        Node::Alternation(parts) => parts.iter().any(|part| matches(part, text, at, then)),
        Node::Capture(_, node) => matches(node, text, at, then),
        Node::Repeat { node, min, max, .. } => {
            let once = |min: u32, max: Option<u32>| Node::Repeat {
                node: node.clone(),
                min: min.saturating_sub(1),
                max: max.map(|max| max - 1),
                greedy: true,
            };
            let repeats = max.is_none_or(|max| max > 0)
                && matches(node, text, at, &mut |end| {
                    (end > at || *min > 0) && matches(&once(*min, *max), text, end, then)
                });
            repeats || *min == 0 && then(at)
        }
        Node::Assert(assertion) => holds(*assertion, text, at) && then(at),
        Node::Look { side: LookDirection::Ahead, negative, node } => {
            matches(node, text, at, &mut |_| true) != *negative && then(at)
        }
        Node::Look { side: LookDirection::Behind, negative, node } => {
            let found = (0..=at).any(|start| matches(node, text, start, &mut |end| end == at));
            found != *negative && then(at)
        }
    }
}

fn holds(assertion: Assertion, text: &[u8], at: usize) -> bool {
    let is_word = |index: Option<usize>| {
        index.and_then(|it| text.get(it)).is_some_and(|byte| ByteSet::word().contains(*byte))
    };
    let boundary = is_word(at.checked_sub(1)) != is_word(Some(at));
    match assertion {
        Assertion::Start => at == 0,
        Assertion::End => at == text.len(),
        Assertion::EndOrLastLine => at == text.len() || text[at..] == *b"\n",
        Assertion::Word => boundary,
        Assertion::NotWord => !boundary,
    }
}
