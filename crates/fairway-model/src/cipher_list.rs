//! Cipher lists in OpenSSL syntax: which supported TLS 1.2 cipher suites a list selects. All supported suites have
//! forward secrecy and authenticated encryption. Lists do not affect TLS 1.3 suites.

use crate::tls::CipherSuite;

/// The result of reading a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherList {
    /// Selected suites, most preferred first.
    pub suites: Vec<CipherSuite>,
    /// Suites and groups in the list that are not supported.
    pub unknown: Vec<String>,
}

/// Supported suites by strength, OpenSSL's initial order.
const KNOWN_SUITES: [(CipherSuite, [&str; 2], &str); 6] = [
    (CipherSuite::EcdheEcdsaAes256, ["ECDSA", "AES256"], "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::EcdheRsaAes256, ["RSA", "AES256"], "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::EcdheEcdsaChaCha20, ["ECDSA", "CHACHA20"], "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::EcdheRsaChaCha20, ["RSA", "CHACHA20"], "ECDHE-RSA-CHACHA20-POLY1305"),
    (CipherSuite::EcdheEcdsaAes128, ["ECDSA", "AES128"], "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::EcdheRsaAes128, ["RSA", "AES128"], "ECDHE-RSA-AES128-GCM-SHA256"),
];

impl CipherList {
    /// Reads a list of names and groups separated by colons (ciphers(1)). Entries are added in order; `!` removes for
    /// good, `-` removes, and `+` moves to the end.
    #[must_use]
    pub fn read(list: &str) -> Self {
        let (mut suites, mut unknown, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty() && !word.starts_with('@'))
        {
            let bare = word.trim_start_matches(['!', '-', '+']);
            let meant: Vec<_> =
                KNOWN_SUITES.iter().filter(|suite| selects(suite, bare)).map(|(it, ..)| *it).collect();
            match word.as_bytes()[0] {
                b'!' => {
                    suites.retain(|suite| !meant.contains(suite));
                    gone.extend(meant);
                }
                b'-' => suites.retain(|suite| !meant.contains(suite)),
                b'+' => {
                    let (last, first): (Vec<_>, Vec<_>) =
                        suites.into_iter().partition(|suite| meant.contains(suite));
                    suites = first.into_iter().chain(last).collect();
                }
                _ if meant.is_empty() && !bare.starts_with("TLS_") => unknown.push(word.to_owned()),
                _ => {
                    let new: Vec<_> =
                        meant.into_iter().filter(|it| !suites.contains(it) && !gone.contains(it)).collect();
                    suites.extend(new);
                }
            }
        }
        Self { suites, unknown }
    }
}

/// Whether a word, or every part of it separated by `+`, names the suite or one of its groups.
fn selects((_, [signature, cipher], name): &(CipherSuite, [&str; 2], &str), word: &str) -> bool {
    let in_group = |group: &str| match group {
        "ALL" | "DEFAULT" | "HIGH" | "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" | "TLSv1.2" | "AEAD" => true,
        "AESGCM" | "AES" => *cipher != "CHACHA20",
        "CHACHA20" | "AES128" | "AES256" => group == *cipher,
        "ECDSA" | "aECDSA" => *signature == "ECDSA",
        "aRSA" => *signature == "RSA",
        other => other == *name,
    };
    word.split('+').all(in_group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use CipherSuite::{
        EcdheEcdsaAes128, EcdheEcdsaAes256, EcdheEcdsaChaCha20, EcdheRsaAes128, EcdheRsaAes256,
        EcdheRsaChaCha20,
    };

    #[test]
    fn names_and_groups_are_added_in_their_order() {
        let read = |list| CipherList::read(list).suites;
        assert_eq!(
            read("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
            [EcdheRsaAes128, EcdheEcdsaAes256]
        );
        assert_eq!(read("ALL:!aRSA:!AES128"), [EcdheEcdsaAes256, EcdheEcdsaChaCha20]);
        assert_eq!(read("!AESGCM:HIGH"), [EcdheEcdsaChaCha20, EcdheRsaChaCha20]);
        assert_eq!(
            read("ECDHE+AESGCM+aRSA:-AES256:ECDHE-RSA-AES256-GCM-SHA384:@STRENGTH"),
            [EcdheRsaAes128, EcdheRsaAes256]
        );
        assert_eq!(read("ECDSA:+AES256"), [EcdheEcdsaChaCha20, EcdheEcdsaAes128, EcdheEcdsaAes256]);
    }

    #[test]
    fn unsupported_suites_are_reported() {
        let found =
            CipherList::read("AES128-SHA:ECDHE-RSA-AES256-GCM-SHA384:!aNULL:TLS_AES_128_GCM_SHA256:RSA");
        assert_eq!(found.suites, [EcdheRsaAes256]);
        assert_eq!(found.unknown, ["AES128-SHA", "RSA"]);
    }
}
