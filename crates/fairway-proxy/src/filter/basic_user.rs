//! The user in `Authorization: Basic`, as nginx reads `$remote_user`. Conditions must see the same user as in nginx, even if
//! the header would not be accepted as a password.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Like `ngx_decode_base64`: decodes up to the first `=`, and ignores what follows and leftover bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The name before the colon (`ngx_http_auth_basic_user`); `None` if there is none.
pub(super) fn find(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, encoded) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let start = encoded.iter().position(|byte| *byte != b' ')?;
    let encoded = encoded[start..].split(|byte| *byte == b'=').next()?;
    let mut user = LENIENT.decode(encoded).ok()?;
    let colon = user.iter().position(|byte| *byte == b':')?;
    user.truncate(colon);
    // It may become part of a header; in nginx, line breaks in it could add more headers.
    user.iter().all(|byte| !byte.is_ascii_control()).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nginx 1.30.6 reads them.
    #[test]
    fn the_basic_user_is_read_as_in_nginx() {
        for (authorization, user) in [
            ("Basic YWRtaW46eA==", "admin"),
            ("basic YWRtaW46eA==", "admin"),
            ("Basic   YWRtaW46eA==", "admin"),
            ("Basic YWRtaW46eA", "admin"),
            ("Basic YWRtaW46eA==    x", "admin"),
            ("Basic YWRtaW46eA==!!", "admin"),
            ("Basic YWRtaW4=", ""),
            ("Basic YWRt aW46eA==", ""),
            ("Basic YWRtaW46eDpi!!", ""),
            ("Basic OnB3", ""),
            ("Basic", ""),
            ("Basic ", ""),
            ("BasicYWRtaW46eA==", ""),
            ("Bearer YWRtaW46eA==", ""),
            // Refused: it contains a line break.
            ("Basic YQ0KWDogYjpj", ""),
        ] {
            let found = find(authorization.as_bytes()).unwrap_or_default();
            assert_eq!(String::from_utf8(found).unwrap(), user, "{authorization}");
        }
    }
}
