//! Runs the checks of `checks` with generated inputs; the fuzz target runs them with inputs that it finds.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::checks;

#[test]
fn the_corpus_of_the_fuzz_target_keeps_the_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/processing");
    let files = fs::read_dir(&folder).expect("the corpus is committed");
    let inputs: Vec<_> = files.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 8, "only {} files", inputs.len());
    inputs.iter().for_each(|input| checks::processing(input));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn any_bytes_and_any_order_of_calls_keep_the_rules(
        input in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        checks::processing(&input);
    }

    /// Mostly valid calls.
    #[test]
    fn calls_in_a_likely_order_keep_the_rules(
        setup in prop::array::uniform4(any::<u8>()),
        calls in prop::collection::vec((0_u8..64, 0_u8..6, any::<u8>()), 0..60),
    ) {
        let mut input = setup.to_vec();
        input.extend([0, 7, 5, 0, 0, 7]);
        for (call, length, kind) in calls {
            input.push(call | kind & 128);
            input.push(length);
            input.extend(std::iter::repeat_n(kind, length.into()));
            input.push(kind);
        }
        checks::processing(&input);
    }
}
