//! The user of Basic credentials, as a request claims.

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Bytes of base64 that are read: longer names are not written. A multiple of four.
const MOST: usize = 1024;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Calls `with` with the user that the value of `Authorization` names: what is before the first colon, as in nginx.
pub(crate) fn user(authorization: &[u8], with: impl FnOnce(&[u8])) -> Option<()> {
    let (scheme, credentials) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let credentials = credentials.trim_ascii();
    let mut decoded = [0; MOST / 4 * 3];
    let begin = &credentials[..credentials.len().min(MOST)];
    let length = BASE64.decode_slice(begin, &mut decoded).ok()?;
    let user = &decoded[..decoded[..length].iter().position(|byte| *byte == b':')?];
    if user.is_empty() {
        return None;
    }
    with(user);
    Some(())
}
