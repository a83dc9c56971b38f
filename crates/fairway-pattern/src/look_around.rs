//! Look-around without backtracking: "match and not match".
//!
//! `X(?!A)Y` matches where `XY` does and `XA` does not, if all matches of `X` end in the same place: then both apply
//! at the same position. `X(?<!B)$` matches where `X$` does and `.*B$` does not. All other look-around is rejected.

use crate::refusal::Refusal;
use crate::set::ByteSet;
use crate::syntax::{Assertion, LookDirection, Node, Parsed};

/// A way to match: `branches`, if all guards hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) branches: Vec<Node>,
    pub(crate) guards: Vec<Guard>,
}

/// A pattern that must, or must not, match at the start of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) negative: bool,
    /// The part before the look-ahead, which must have a single end.
    pub(crate) before: Option<Node>,
    pub(crate) node: Node,
    /// The content of the look-ahead.
    pub(crate) look: Node,
}

/// The clauses of a pattern; one of them must match.
pub(crate) fn clauses(parsed: Parsed) -> Result<Vec<Clause>, Refusal> {
    let mut branches = parsed.branches;
    if !branches.iter().any(Node::has_look) {
        return Ok(vec![Clause { branches, guards: Vec::new() }]);
    }
    if branches.len() > 1 {
        return Err(unsupported("in a pattern with a | outside of groups", "write a path for each part"));
    }
    let mut parts = match branches.remove(0) {
        Node::Concat(parts) => parts,
        node => vec![node],
    };
    let mut guards = Vec::new();
    let behind = split_final_lookbehind(&mut parts);
    let node = lift_lookaround(Node::Concat(parts), &mut Vec::new(), &mut guards)?;
    let Some((end, looks)) = behind else { return Ok(vec![Clause { branches: vec![node], guards }]) };
    // `$` has two positions, and the part before each is checked separately.
    let last_line: &[Option<u8>] = match end {
        Assertion::EndOrLastLine => &[None, Some(b'\n')],
        _ => &[None],
    };
    let clause = |line_feed: &Option<u8>| {
        let end =
            [line_feed.map(|byte| Node::Byte(ByteSet::single(byte))), Some(Node::Assert(Assertion::End))];
        let ends_with =
            |node: Node| Node::Concat([node].into_iter().chain(end.iter().flatten().cloned()).collect());
        let look_guards = looks.iter().map(|(negative, look)| Guard {
            negative: *negative,
            before: None,
            node: ends_with(Node::Concat(vec![Node::anything(), look.clone()])),
            look: Node::Empty,
        });
        Clause {
            branches: vec![ends_with(node.clone())],
            guards: guards.iter().cloned().chain(look_guards).collect(),
        }
    };
    last_line.iter().map(|it| Ok(clause(it))).collect()
}

/// Removes a final `$` and the look-behind before it, and returns both.
fn split_final_lookbehind(parts: &mut Vec<Node>) -> Option<(Assertion, Vec<(bool, Node)>)> {
    let Some(Node::Assert(end @ (Assertion::End | Assertion::EndOrLastLine))) = parts.last().cloned() else {
        return None;
    };
    let first = parts[..parts.len() - 1]
        .iter()
        .rposition(|part| !matches!(part, Node::Look { side: LookDirection::Behind, .. }))
        .map_or(0, |last| last + 1);
    let looks = parts[first..].iter().filter_map(|part| match part {
        Node::Look { negative, node, .. } if !node.has_look() && !node.has_end_or_last_line() => {
            Some((*negative, (**node).clone()))
        }
        _ => None,
    });
    let looks: Vec<_> = looks.collect();
    if looks.is_empty() || looks.len() + first + 1 != parts.len() {
        return None;
    }
    parts.truncate(first);
    Some((end, looks))
}

/// `node` without its look-around, which is added to `guards`; `before` is the part before it.
fn lift_lookaround(node: Node, before: &mut Vec<Node>, guards: &mut Vec<Guard>) -> Result<Node, Refusal> {
    match node {
        Node::Look { side: LookDirection::Behind, .. } => Err(unsupported(
            "behind a place that is not the end",
            "only (?<!..)$ and (?<=..)$ are, at the end",
        )),
        Node::Look { node, .. } if node.has_look() => {
            Err(unsupported("in look-around", "write it without the outer one"))
        }
        Node::Look { negative: false, node, .. } if node.any_node(&|it| matches!(it, Node::Capture(..))) => {
            Err(unsupported("with a capture in it", "write (?:..) inside of (?=..)"))
        }
        Node::Look { negative, node: look, .. } => {
            let prefix = Node::Concat(before.clone());
            let node = Node::Concat(vec![prefix.clone(), (*look).clone()]);
            guards.push(Guard { negative, before: Some(prefix), node, look: *look });
            Ok(Node::Empty)
        }
        Node::Concat(parts) => {
            let parts = parts.into_iter().map(|part| lift_lookaround(part, before, guards));
            Ok(Node::Concat(parts.collect::<Result<_, _>>()?))
        }
        Node::Capture(number, inner) => {
            Ok(Node::Capture(number, Box::new(lift_lookaround(*inner, before, guards)?)))
        }
        other if other.has_look() => Err(unsupported(
            "in an alternative or under a quantifier",
            "write it before the group, as in /(?!.*bad)",
        )),
        other => {
            before.push(other.clone());
            Ok(other)
        }
    }
}

/// The rejection of a look-ahead with an ambiguous position.
pub(crate) fn uncertain() -> Refusal {
    unsupported(
        "after something that can end in several places",
        "let it follow text or a class of fixed length, as in /api/(?!internal)",
    )
}

fn unsupported(position: &str, instead: &str) -> Refusal {
    Refusal::because(format!("look-around {position} is not supported; {instead}"))
}
