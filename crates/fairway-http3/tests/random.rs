//! Random and mutated input, with a printed seed: nothing panics, and memory stays bounded.

use std::path::Path;

use fastrand::Rng;

use crate::checks;
use crate::support::hex;

fn seed() -> u64 {
    let seed = std::env::var("SEED").map_or(20_261_130, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    seed
}

#[test]
fn a_decoder_gives_the_same_result_for_any_split() {
    let mut random = Rng::with_seed(seed());
    for _ in 0..3_000 {
        let mut input = vec![random.u8(..)];
        for _ in 0..random.usize(0..12) {
            let chunk: Vec<u8> = match random.u8(0..6) {
                0 => hex::bytes("00 3f e1 03 c0 03 61 62 63 41 78 01 79 00 01"),
                1 => hex::bytes("00 c0 02 61 62 82 01 63 20 3f 21 c1 00"),
                2 => hex::bytes("01 02 00 80 d1 d7 c1 50 01 61 21 78 01 79"),
                3 => hex::bytes("01 04 81 10 11 00 01 61 40 01 62"),
                _ => {
                    let length = random.usize(1..30);
                    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
                }
            };
            input.extend([chunk[0], chunk.len() as u8 - 1]);
            input.extend_from_slice(&chunk[1..]);
        }
        for _ in 0..random.usize(0..4) {
            let at = random.usize(0..input.len());
            input[at] ^= 1 << random.u8(0..8);
        }
        checks::qpack::check(&input);
    }
}

/// Valid streams to be mutated.
const STREAMS: [&str; 7] = [
    "GET",
    "POST 00 05 61 62 63 64 65 21 03 00 00 00 TRAILERS",
    "01 06 02 00 d1 d7 c1 80 00 02 61 62 01 03 02 00 80",
    "CONTROL 07 01 00 0d 01 05 80 0f 07 00 02 00 69 21 02 00 00",
    "02 3f e1 1f c0 03 61 2e 62 41 78 01 79 00 20",
    "03 40 44 7f 05",
    "21 00 01 02 03",
];

#[test]
fn a_server_survives_mutated_streams() {
    let mut random = Rng::with_seed(seed());
    for _ in 0..150 {
        let mut input = Vec::new();
        for _ in 0..20 {
            let of_request = random.bool();
            let kind = if of_request { random.usize(0..3) } else { random.usize(3..7) };
            let mut bytes = hex::bytes(STREAMS[kind]);
            for _ in 0..random.usize(0..3) {
                let at = random.usize(0..bytes.len());
                match random.u8(0..3) {
                    0 => bytes[at] ^= 1 << random.u8(0..8),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            input.extend([u8::from(!of_request), bytes.len() as u8]);
            input.extend(bytes);
            for _ in 0..random.usize(0..3) {
                input.extend([random.u8(..) & !7 | random.u8(3..8), random.u8(..)]);
            }
        }
        checks::server::check(&input);
    }
}

#[test]
fn the_corpora_of_the_fuzz_targets_hold() {
    replay("h3_qpack", checks::qpack::check);
    replay("h3_server", checks::server::check);
}

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty(), "{target}");
    for file in files {
        check(&std::fs::read(file).unwrap());
    }
}
