//! The syntax tree of a pattern.

use crate::set::ByteSet;

/// A node of the syntax tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Matches the empty text.
    Empty,
    /// Matches one byte of a set.
    Byte(ByteSet),
    /// Matches nodes in sequence.
    Concat(Vec<Node>),
    /// Tries alternatives in order.
    Alternation(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        greedy: bool,
    },
    Capture(u32, Box<Node>),
    Assert(Assertion),
    Look {
        side: LookDirection,
        negative: bool,
        node: Box<Node>,
    },
}

/// A zero-width assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assertion {
    /// `^`, `\A`
    Start,
    /// `\z`
    End,
    /// `$`, `\Z`: the end, or before a line feed that is the last byte.
    EndOrLastLine,
    /// `\b`
    Word,
    /// `\B`
    NotWord,
}

/// The direction of look-around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookDirection {
    Ahead,
    Behind,
}

/// A complete pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The top-level alternatives; never empty.
    pub(crate) branches: Vec<Node>,
}

impl Node {
    /// Any bytes, as few as possible.
    pub(crate) fn anything() -> Self {
        Self::Repeat { node: Box::new(Self::Byte(ByteSet::all())), min: 0, max: None, greedy: false }
    }

    /// Whether `is` holds for this node or a descendant.
    pub(crate) fn any_node(&self, is: &impl Fn(&Self) -> bool) -> bool {
        is(self)
            || match self {
                Self::Concat(parts) | Self::Alternation(parts) => parts.iter().any(|part| part.any_node(is)),
                Self::Repeat { node, .. } | Self::Capture(_, node) | Self::Look { node, .. } => {
                    node.any_node(is)
                }
                Self::Empty | Self::Byte(_) | Self::Assert(_) => false,
            }
    }

    pub(crate) fn has_look(&self) -> bool {
        self.any_node(&|node| matches!(node, Self::Look { .. }))
    }

    pub(crate) fn has_end_or_last_line(&self) -> bool {
        self.any_node(&|node| *node == Self::Assert(Assertion::EndOrLastLine))
    }

    /// Whether it can match the empty text anywhere.
    pub(crate) fn is_optional(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Byte(_) | Self::Assert(_) | Self::Look { .. } => false,
            Self::Concat(parts) => parts.iter().all(Self::is_optional),
            Self::Alternation(parts) => parts.iter().any(Self::is_optional),
            Self::Repeat { node, min, .. } => *min == 0 || node.is_optional(),
            Self::Capture(_, node) => node.is_optional(),
        }
    }
}
