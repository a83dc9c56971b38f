//! Decisions: taken from the input while it lasts, then from a generator seeded by it. So a fuzzer controls each of
//! them, and every run still ends.

/// A source of decisions.
pub(crate) struct Dice<'b> {
    input: &'b [u8],
    state: u64,
}

impl<'b> Dice<'b> {
    /// Decisions from this input.
    pub(crate) fn new(input: &'b [u8]) -> Self {
        let state = input.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Dice { input, state: state | 1 }
    }

    /// A number in `0..sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> usize {
        let bytes = (64 - sides.saturating_sub(1).leading_zeros()).div_ceil(8) as usize;
        let number = match self.input.split_at_checked(bytes.max(1)) {
            Some((number, rest)) => {
                self.input = rest;
                number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }
            None => self.after_the_input(),
        };
        usize::try_from(number % sides).expect("there are few sides")
    }

    /// Xorshift.
    fn after_the_input(&mut self) -> u64 {
        self.input = &[];
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 11
    }
}
