//! Checks for any bytes as a PROXY protocol header: it does not matter how they arrive, and a second reader, written
//! from the specification alone, agrees.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A client, and what it connected to.
pub(crate) type Both = (SocketAddr, SocketAddr);

/// A reader's result: more is needed, the two addresses and the length of the header, or that it is not a header.
pub(crate) type HeaderResult = Result<Option<(Option<Both>, usize)>, ()>;

/// Any bytes as the start of a connection, read by `parse`.
pub(crate) fn proxy_header(input: &[u8], parse: impl Fn(&[u8]) -> HeaderResult) {
    let decided = (0..=input.len()).find(|end| parse(&input[..*end]) != Ok(None));
    let Some(decided) = decided else { return assert_eq!(naive(input), Ok(None)) };
    let parsed = parse(&input[..decided]);
    for end in decided..=input.len() {
        assert_eq!(parse(&input[..end]), parsed, "the first {end} bytes, decided with {decided}");
    }
    if let Ok(Some((_, length))) = parsed {
        assert_eq!(length, decided, "all of it was needed");
    }
    assert_eq!(naive(input), parsed);
}

fn naive(input: &[u8]) -> HeaderResult {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let begins = |with: &[u8]| input[..input.len().min(with.len())] == with[..input.len().min(with.len())];
    match (begins(b"PROXY "), begins(SIGNATURE)) {
        (true, _) => line(input),
        (_, true) if input.len() < 16 => Ok(None),
        (_, true) => binary(&input[12..]),
        _ => Err(()),
    }
}

/// "The maximum line lengths the receiver must support including the CRLF are ... 107 chars".
fn line(input: &[u8]) -> HeaderResult {
    let Some(end) = input.windows(2).position(|two| two == b"\r\n") else {
        return if input.len() > 107 { Err(()) } else { Ok(None) };
    };
    if end + 2 > 107 {
        return Err(());
    }
    // "the receiver must ignore anything presented before the CRLF is found".
    if input[..end].splitn(3, |byte| *byte == b' ').nth(1) == Some(b"UNKNOWN") {
        return Ok(Some((None, end + 2)));
    }
    // No other kind of line end is allowed.
    if input[..end].contains(&b'\r') {
        return Err(());
    }
    let text = str::from_utf8(&input[..end]).map_err(|_| ())?;
    let words: Vec<&str> = text.split(' ').collect();
    let number = |text: &str| match text.bytes().all(|digit| digit.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
    {
        true => text.parse::<u16>().map_err(|_| ()),
        false => Err(()),
    };
    let both = match words[..] {
        ["PROXY", "TCP4", from, to, port, other] => {
            let (from, to): (Ipv4Addr, Ipv4Addr) =
                (from.parse().map_err(|_| ())?, to.parse().map_err(|_| ())?);
            ((from, number(port)?).into(), (to, number(other)?).into())
        }
        ["PROXY", "TCP6", from, to, port, other] => {
            let (from, to): (Ipv6Addr, Ipv6Addr) =
                (from.parse().map_err(|_| ())?, to.parse().map_err(|_| ())?);
            ((from, number(port)?).into(), (to, number(other)?).into())
        }
        _ => return Err(()),
    };
    Ok(Some((Some(both), end + 2)))
}

/// What follows the signature.
fn binary(input: &[u8]) -> HeaderResult {
    let (command, family) = (input[0], input[1]);
    let length = usize::from(u16::from_be_bytes([input[2], input[3]]));
    // "Any other value ... must not be accepted".
    if !matches!(command, 0x20 | 0x21) {
        return Err(());
    }
    let least = match (family >> 4, family & 15) {
        (0, 0..=2) => 0,
        (1, 0..=2) => 12,
        (2, 0..=2) => 36,
        (3, 0..=2) => 216,
        _ => return Err(()),
    };
    if length < least {
        return Err(());
    }
    let Some(body) = input.get(4..4 + length) else { return Ok(None) };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let both = match (command, family >> 4) {
        (0x21, 1) => {
            let address = |at: usize| *body[at..].first_chunk::<4>().expect("twelve bytes");
            Some(((address(0), port(8)).into(), (address(4), port(10)).into()))
        }
        (0x21, 2) => {
            let address = |at: usize| *body[at..].first_chunk::<16>().expect("36 bytes");
            Some(((address(0), port(32)).into(), (address(16), port(34)).into()))
        }
        _ => None,
    };
    Ok(Some((both, 16 + length)))
}
