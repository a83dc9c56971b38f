//! Look-around without backtracking: "match and not match".
//!
//! `X(?!A)Y` matches where `XY` does and `XA` does not, if what `X` matches can end in one place only: both then look at
//! the same place. `X(?<!B)$` matches where `X$` does and `.*B$` does not. All other look-around is refused.

use crate::refusal::Refusal;
use crate::set::Set;
use crate::syntax::{Assertion, Node, Parsed, Side};

/// One way to match: `main`, if all guards agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) branches: Vec<Node>,
    pub(crate) guards: Vec<Guard>,
}

/// What else must match at the start of the text, or must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) negative: bool,
    /// What stands before the look-ahead; it must have one end only.
    pub(crate) before: Option<Node>,
    pub(crate) node: Node,
    /// What the look-ahead looks for.
    pub(crate) look: Node,
}

/// The clauses of a pattern, of which one is enough.
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
    let behind = taken_from_end(&mut parts);
    let node = lifted(Node::Concat(parts), &mut Vec::new(), &mut guards)?;
    let Some((end, looks)) = behind else { return Ok(vec![Clause { branches: vec![node], guards }]) };
    // `$` has two places, and what stands before each is looked at by itself.
    let last_line: &[Option<u8>] = match end {
        Assertion::EndOrLastLine => &[None, Some(b'\n')],
        _ => &[None],
    };
    let clause = |line_feed: &Option<u8>| {
        let end = [line_feed.map(|byte| Node::Byte(Set::of(byte))), Some(Node::Assert(Assertion::End))];
        let ends_with =
            |node: Node| Node::Concat([node].into_iter().chain(end.iter().flatten().cloned()).collect());
        let more = looks.iter().map(|(negative, look)| Guard {
            negative: *negative,
            before: None,
            node: ends_with(Node::Concat(vec![Node::anything(), look.clone()])),
            look: Node::Empty,
        });
        Clause {
            branches: vec![ends_with(node.clone())],
            guards: guards.iter().cloned().chain(more).collect(),
        }
    };
    last_line.iter().map(|it| Ok(clause(it))).collect()
}

/// Takes the look-behind from before a `$` at the end, and the `$`.
fn taken_from_end(parts: &mut Vec<Node>) -> Option<(Assertion, Vec<(bool, Node)>)> {
    let Some(Node::Assert(end @ (Assertion::End | Assertion::EndOrLastLine))) = parts.last().cloned() else {
        return None;
    };
    let first = parts[..parts.len() - 1]
        .iter()
        .rposition(|part| !matches!(part, Node::Look { side: Side::Behind, .. }))
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

/// `node` without its look-around, which goes to `guards`; `before` is what stands before it.
fn lifted(node: Node, before: &mut Vec<Node>, guards: &mut Vec<Guard>) -> Result<Node, Refusal> {
    match node {
        Node::Look { side: Side::Behind, .. } => Err(unsupported(
            "behind a place that is not the end",
            "only (?<!..)$ and (?<=..)$ are, at the end",
        )),
        Node::Look { node, .. } if node.has_look() => {
            Err(unsupported("in look-around", "write it without the outer one"))
        }
        Node::Look { negative: false, node, .. } if node.any(&|it| matches!(it, Node::Capture(..))) => {
            Err(unsupported("with a capture in it", "write (?:..) inside of (?=..)"))
        }
        Node::Look { negative, node: look, .. } => {
            let prefix = Node::Concat(before.clone());
            let node = Node::Concat(vec![prefix.clone(), (*look).clone()]);
            guards.push(Guard { negative, before: Some(prefix), node, look: *look });
            Ok(Node::Empty)
        }
        Node::Concat(parts) => {
            let parts = parts.into_iter().map(|part| lifted(part, before, guards));
            Ok(Node::Concat(parts.collect::<Result<_, _>>()?))
        }
        Node::Capture(number, inner) => Ok(Node::Capture(number, Box::new(lifted(*inner, before, guards)?))),
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

/// The refusal of a look-ahead whose place is not certain.
pub(crate) fn uncertain() -> Refusal {
    unsupported(
        "after something that can end in several places",
        "let it follow text or a class of fixed length, as in /api/(?!internal)",
    )
}

fn unsupported(place: &str, instead: &str) -> Refusal {
    Refusal::because(format!("look-around {place} is not supported; {instead}"))
}
