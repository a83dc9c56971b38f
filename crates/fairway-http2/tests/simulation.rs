//! Both ends connected in virtual time, with random decisions and many windows.

use proptest::prelude::*;

use crate::checks::{Dice, play};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn bodies_arrive_where_they_belong_and_nothing_is_left(
        seed in any::<u64>(),
        requests in 1..40usize,
        (stream_window, connection_window) in prop_oneof![
            Just((65_536, 1 << 20)),
            Just((65_535, 65_535)),
            Just((1_000, 65_535)),
            Just((300_000, 70_000)),
        ],
    ) {
        play(&mut Dice::new(&seed.to_be_bytes()), requests, stream_window, connection_window);
    }
}
