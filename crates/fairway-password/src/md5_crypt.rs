//! MD5-based hashes `$1$` and `$apr1$`: a thousand rounds of MD5 over password and salt. Weak by today's standards,
//! but still the default of `htpasswd`.

use md5::{Digest, Md5};

/// Significant bytes of a salt.
const MAX_SALT_BYTES: usize = 8;
const ROUNDS: usize = 1000;
/// Digest bytes that are encoded as four characters each, the highest first; the last byte becomes two characters.
const BYTE_GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
const LAST_DIGEST_BYTE: usize = 11;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The 22 characters after the salt; `magic` is `$1$` or `$apr1$`.
pub(crate) fn md5_crypt(password: &[u8], magic: &str, salt: &str) -> [u8; 22] {
    let salt = &salt.as_bytes()[..salt.len().min(MAX_SALT_BYTES)];
    let twice = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for chunk in password.chunks(twice.len()) {
        first.update(&twice[..chunk.len()]);
    }
    // One byte for each bit of the length, lowest bit first.
    let mut bits = password.len();
    while bits > 0 {
        first.update(if bits & 1 == 1 { [0] } else { [password[0]] });
        bits >>= 1;
    }
    let mut digest = first.finalize();
    for round in 0..ROUNDS {
        let mut next = Md5::new();
        let odd = round % 2 == 1;
        next.update(if odd { password } else { &digest[..] });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &digest[..] } else { password });
        digest = next.finalize();
    }
    encode(&digest)
}

fn encode(digest: &[u8]) -> [u8; 22] {
    let mut text = [0; 22];
    let encoded =
        BYTE_GROUPS.iter().map(|group| group.iter().fold(0, |bits, at| bits << 8 | usize::from(digest[*at])));
    for (characters, bits) in text.chunks_mut(4).zip(encoded.chain([usize::from(digest[LAST_DIGEST_BYTE])])) {
        for (at, character) in characters.iter_mut().enumerate() {
            *character = ALPHABET[bits >> (6 * at) & 63];
        }
    }
    text
}
