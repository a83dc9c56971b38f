//! The hash of `$1$` and `$apr1$`: a thousand rounds of MD5 over password and salt. Weak by now, and what `htpasswd` still
//! writes unless told otherwise.

use md5::{Digest, Md5};

/// Bytes of a salt that count.
const SALT: usize = 8;
const ROUNDS: usize = 1000;
/// Which bytes of the digest make four characters each, the highest first; the last one makes two.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
const LAST: usize = 11;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The 22 characters behind the salt; `magic` is `$1$` or `$apr1$`.
pub(crate) fn md5_crypt(password: &[u8], magic: &str, salt: &str) -> [u8; 22] {
    let salt = &salt.as_bytes()[..salt.len().min(SALT)];
    let twice = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut first = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for chunk in password.chunks(twice.len()) {
        first.update(&twice[..chunk.len()]);
    }
    // One byte for each bit of the length, the lowest first.
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
    let whole =
        GROUPS.iter().map(|group| group.iter().fold(0, |bits, at| bits << 8 | usize::from(digest[*at])));
    for (characters, bits) in text.chunks_mut(4).zip(whole.chain([usize::from(digest[LAST])])) {
        for (at, character) in characters.iter_mut().enumerate() {
            *character = ALPHABET[bits >> (6 * at) & 63];
        }
    }
    text
}
