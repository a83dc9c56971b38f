//! The user name in Basic credentials, as claimed by a request.

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Bytes of base64 that are decoded; longer names are not logged. A multiple of four.
const MAX_CREDENTIALS_BYTES: usize = 1024;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Calls `act` with the user name in an `Authorization` value: the part before the first colon, as in nginx.
pub(crate) fn with_basic_user(authorization: &[u8], act: impl FnOnce(&[u8])) -> Option<()> {
    let (scheme, credentials) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let credentials = credentials.trim_ascii();
    let mut decoded = [0; MAX_CREDENTIALS_BYTES / 4 * 3];
    let begin = &credentials[..credentials.len().min(MAX_CREDENTIALS_BYTES)];
    let length = BASE64.decode_slice(begin, &mut decoded).ok()?;
    let user = &decoded[..decoded[..length].iter().position(|byte| *byte == b':')?];
    if user.is_empty() {
        return None;
    }
    act(user);
    Some(())
}
