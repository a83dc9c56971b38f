//! Bytes as text: two hexadecimal digits each, or a word for a frame.

/// `HEADERS` with `GET https://a/`.
pub(crate) const GET: &str = "01 08 00 00 d1 d7 c1 50 01 61";
/// `HEADERS` with `POST https://a/`.
pub(crate) const POST: &str = "01 08 00 00 d4 d7 c1 50 01 61";
/// `HEADERS` with `CONNECT a:1`.
pub(crate) const CONNECT: &str = "01 08 00 00 cf 50 03 61 3a 31";
/// A control stream with empty SETTINGS.
pub(crate) const CONTROL: &str = "00 04 00";
/// `HEADERS` with the trailer `x: y`.
pub(crate) const TRAILERS: &str = "01 06 00 00 21 78 01 79";

/// Decodes a text. `word*n` repeats a word, `zero*n` is that many zero bytes, and `len:n` is `n` as a four-byte
/// integer.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for word in text.split_whitespace() {
        let (word, count) = match word.split_once('*') {
            Some((word, count)) => (word, count.parse().unwrap()),
            None => (word, 1),
        };
        let byte = match word {
            "GET" => bytes(GET),
            "POST" => bytes(POST),
            "CONNECT" => bytes(CONNECT),
            "CONTROL" => bytes(CONTROL),
            "TRAILERS" => bytes(TRAILERS),
            "zero" => vec![0],
            _ if word.starts_with("len:") => {
                let length: u32 = word[4..].parse().unwrap();
                (length | 0x8000_0000).to_be_bytes().to_vec()
            }
            _ => vec![u8::from_str_radix(word, 16).unwrap_or_else(|_| panic!("{word:?}"))],
        };
        for _ in 0..count {
            out.extend_from_slice(&byte);
        }
    }
    out
}
