//! The cost of a pattern, and the text length that it applies to.

/// Maximum length of compared text, in bytes: costs are calculated for it, and longer texts are refused earlier.
pub const LONGEST_TEXT: usize = 8 * 1024;

/// The cost of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Maximum steps of a comparison: one for each byte that an automaton reads.
    pub steps: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Work to compile it, in steps.
    pub work: u64,
}
