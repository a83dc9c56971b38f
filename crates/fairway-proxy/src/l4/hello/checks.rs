//! Properties of any bytes at the start of a TLS connection: fragmentation does not matter, and a second
//! reader, written from the specifications alone, agrees.

/// Result of a reader: more input needed, the name, or not a ClientHello.
pub(crate) type ParsedName = Result<Option<Option<String>>, ()>;

const MOST_OF_MESSAGE: usize = 16 * 1024;
const MOST_IN_RECORDS: usize = 32 * 1024;

/// Checks any bytes, which `read` gets in fragments.
pub(crate) fn client_hello(input: &[u8], read: impl Fn(&mut dyn Iterator<Item = &[u8]>) -> ParsedName) {
    let unsplit = read(&mut std::iter::once(input));
    for size in [1, 2, 3, 7, 64, 1_460] {
        assert_eq!(read(&mut input.chunks(size)), unsplit, "in pieces of {size} bytes");
    }
    assert_eq!(parse_naively(input), unsplit);
}

fn parse_naively(input: &[u8]) -> ParsedName {
    let mut message = Vec::new();
    let mut at = 0;
    while let Some(header) = input.get(at..at + 5) {
        let length = usize::from(header[3]) << 8 | usize::from(header[4]);
        if header[0] != 22 || header[1] != 3 || !(1..=16_384).contains(&length) || at + 5 > MOST_IN_RECORDS {
            return Err(());
        }
        for (place, byte) in input[at + 5..].iter().enumerate().take(length) {
            message.push(*byte);
            if at + 5 + place + 1 > MOST_IN_RECORDS || message[0] != 1 {
                return Err(());
            }
            if let [_, a, b, c, content @ ..] = &message[..] {
                let message_length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                if message_length + 4 > MOST_OF_MESSAGE {
                    return Err(());
                }
                if content.len() == message_length {
                    return name(content).ok_or(()).map(Some);
                }
            }
        }
        at += 5 + length;
    }
    if input.len() > MOST_IN_RECORDS { Err(()) } else { Ok(None) }
}

/// The name in the content of a ClientHello; `None` if it is invalid.
fn name(content: &[u8]) -> Option<Option<String>> {
    let skip = |from: usize, width: usize| {
        let length =
            content.get(from..from + width)?.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte));
        content.get(from + width..from + width + length).map(|vector| (vector, from + width + length))
    };
    let (session, at) = skip(34, 1)?;
    let (suites, at) = skip(at, 2)?;
    let (compressions, at) = skip(at, 1)?;
    if session.len() > 32 || suites.len() < 2 || suites.len() % 2 == 1 || compressions.is_empty() {
        return None;
    }
    if at == content.len() {
        return Some(None);
    }
    let (extensions, end) = skip(at, 2)?;
    if end != content.len() {
        return None;
    }
    let mut names = Vec::new();
    let mut rest = extensions;
    while !rest.is_empty() {
        let length = usize::from(*rest.get(2)?) << 8 | usize::from(*rest.get(3)?);
        let content = rest.get(4..4 + length)?;
        if rest[..2] == [0, 0] {
            names.push(content);
        }
        rest = &rest[4 + length..];
    }
    match names[..] {
        [] => Some(None),
        [[a, b, 0, c, d, name @ ..]] => {
            let lengths = [(*a, *b, name.len() + 3), (*c, *d, name.len())];
            let fits = |(high, low, wanted)| usize::from(high) << 8 | usize::from(low) == wanted;
            if name.is_empty() || !lengths.into_iter().all(fits) {
                return None;
            }
            let good = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
            let text = str::from_utf8(name).map_or("", |text| text.strip_suffix('.').unwrap_or(text));
            let is_name = (1..=253).contains(&text.len()) && text.chars().all(good);
            Some(is_name.then(|| text.to_ascii_lowercase()))
        }
        _ => None,
    }
}
