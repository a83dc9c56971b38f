//! What a pattern says, as a tree.

use crate::set::Set;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Nothing, which is everywhere.
    Empty,
    /// One byte of these.
    Byte(Set),
    /// One after the other.
    Concat(Vec<Node>),
    /// The first that leads to a match.
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
        side: Side,
        negative: bool,
        node: Box<Node>,
    },
}

/// What must be true of a place.
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

/// Where look-around looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ahead,
    Behind,
}

/// A pattern as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// What stands between the `|` outside of all groups; never empty.
    pub(crate) branches: Vec<Node>,
}

impl Node {
    /// Any bytes, as few as possible.
    pub(crate) fn anything() -> Self {
        Self::Repeat { node: Box::new(Self::Byte(Set::all())), min: 0, max: None, greedy: false }
    }

    /// Whether `is` holds for this part or one inside.
    pub(crate) fn any(&self, is: &impl Fn(&Self) -> bool) -> bool {
        is(self)
            || match self {
                Self::Concat(parts) | Self::Alternation(parts) => parts.iter().any(|part| part.any(is)),
                Self::Repeat { node, .. } | Self::Capture(_, node) | Self::Look { node, .. } => node.any(is),
                Self::Empty | Self::Byte(_) | Self::Assert(_) => false,
            }
    }

    pub(crate) fn has_look(&self) -> bool {
        self.any(&|node| matches!(node, Self::Look { .. }))
    }

    pub(crate) fn has_end_or_last_line(&self) -> bool {
        self.any(&|node| *node == Self::Assert(Assertion::EndOrLastLine))
    }

    /// Whether it can match nothing at every place.
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
