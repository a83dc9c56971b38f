//! Invariants for any password file and password, used by the property tests and the fuzz target. Panics on
//! violations.

use fairway_password::{Hash, PasswordEntry, VerifyCost, entries};

/// Splits any bytes into a password, a zero byte and a file.
pub(crate) fn password(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (password, file) = input.split_at(at);
    file_and_password(&String::from_utf8_lossy(file.get(1..).unwrap_or_default()), password);
}

/// Parsing never fails, and a hash matches only its own password.
pub(crate) fn file_and_password(file: &str, password: &[u8]) {
    for PasswordEntry { user, hash: text, .. } in entries(file) {
        assert!(!user.is_empty() && !user.contains([':', '\n', '\r']), "{user:?}");
        assert!(!text.contains([':', '\n', '\r']), "{text:?}");
        let Ok(hash) = Hash::read(text) else { continue };
        assert_eq!(Hash::read(text), Ok(hash), "reading is repeatable");
        if is_slow(text) {
            continue;
        }
        let fits = hash.verify(password);
        if let Some(plain) = text.strip_prefix("{PLAIN}") {
            assert_eq!(fits, plain.as_bytes() == password, "{text:?}");
        } else if fits {
            assert!(!hash.verify(&[password, b"x"].concat()) || is_cut_short(text, password), "{text:?}");
        }
        assert_eq!(matches!(hash.cost(), VerifyCost::Nothing), text.starts_with('{'), "{text:?}");
    }
}

/// Verification would dominate the run time.
fn is_slow(text: &str) -> bool {
    let bcrypt = text.starts_with("$2") && !matches!(text.get(4..6), Some("00" | "01" | "02" | "03" | "04"));
    bcrypt || text.contains("rounds=")
}

/// bcrypt uses 72 bytes of a password, and none after a zero byte.
fn is_cut_short(text: &str, password: &[u8]) -> bool {
    text.starts_with("$2") && (password.len() >= 71 || password.contains(&0))
}
