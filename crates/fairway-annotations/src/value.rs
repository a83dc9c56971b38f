//! What the values of Fairway's own annotations have in common.

use serde::de::DeserializeOwned;

/// Reads an object in JSON.
pub(crate) fn object<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not the JSON that is expected here: {error}"))
}

/// RFC 9110 §5.1: a token.
pub(crate) fn header_name(text: &str) -> Result<(), String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    match !text.is_empty() && text.bytes().all(token) {
        true => Ok(()),
        false => Err(format!("\"{text}\" is no name of a header")),
    }
}
