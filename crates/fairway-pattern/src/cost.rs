//! What a pattern costs, and for which text that is counted.

/// The longest text that a pattern is compared with, in bytes: costs are counted for it. Longer ones are refused before.
pub const LONGEST_TEXT: usize = 8 * 1024;

/// What a pattern costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of one comparison, at most: one for each byte that an automaton reads.
    pub steps: u64,
    /// In bytes.
    pub memory: u64,
    /// Of compiling it, in steps.
    pub work: u64,
}
