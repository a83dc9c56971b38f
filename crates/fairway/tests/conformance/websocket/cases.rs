//! Valid and invalid input of WebSocket clients (RFC 6455): frames as bytes, written by hand. The expected result is the server's
//! verdict without a proxy.

/// The bytes of a client after its handshake.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    /// Each byte is written separately.
    pub(super) bytewise: bool,
}

const FIN: u8 = 0x80;
const MORE: u8 = 0;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// How the length is encoded.
#[derive(Clone, Copy)]
enum Length {
    Shortest,
    Sixteen,
    SixtyFour,
}

fn framed(first: u8, payload: &[u8], length: Length, mask: Option<[u8; 4]>) -> Vec<u8> {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let count = payload.len();
    let mut frame = vec![first];
    match (length, count) {
        (Length::Shortest, 0..126) => frame.push(masked | count as u8),
        (Length::Sixteen, _) | (Length::Shortest, 126..=0xffff) => {
            frame.push(masked | 126);
            frame.extend((count as u16).to_be_bytes());
        }
        (Length::SixtyFour | Length::Shortest, _) => {
            frame.push(masked | 127);
            frame.extend((count as u64).to_be_bytes());
        }
    }
    match mask {
        Some(mask) => {
            frame.extend(mask);
            frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        }
        None => frame.extend(payload),
    }
    frame
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    framed(first, payload, Length::Shortest, Some(MASK))
}

/// A complete message.
fn text(payload: &str) -> Vec<u8> {
    frame(FIN | TEXT, payload.as_bytes())
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

/// The cases.
#[derive(Default)]
pub(super) struct Cases(Vec<Case>);

impl Cases {
    /// All of them.
    pub(super) fn all() -> Vec<Case> {
        let mut cases = Self::default();
        cases.sizes();
        cases.controls();
        cases.closes();
        cases.reserved();
        cases.fragments();
        cases.utf8();
        cases.ends();
        cases.in_bytes();
        cases.0
    }

    fn raw(&mut self, name: impl Into<String>, bytes: Vec<u8>) {
        self.0.push(Case { name: name.into(), bytes, bytewise: false });
    }

    /// These frames followed by a close frame.
    fn add(&mut self, name: impl Into<String>, frames: &[Vec<u8>]) {
        self.raw(name, [frames.concat(), close(1000, b"")].concat());
    }

    /// RFC 6455 §5.2, "Payload length".
    fn sizes(&mut self) {
        for (kind, opcode) in [("text", TEXT), ("binary", BINARY)] {
            for size in [0, 1, 125, 126, 127, 128, 65_534, 65_535, 65_536, 1 << 20] {
                self.add(format!("{kind} of {size} bytes"), &[frame(FIN | opcode, &vec![b'*'; size])]);
            }
        }
        let odd = |size: usize, length| framed(FIN | BINARY, &vec![1; size], length, Some(MASK));
        for size in [0, 5, 125] {
            self.add(format!("{size} bytes with a length of 16 bits"), &[odd(size, Length::Sixteen)]);
        }
        for size in [0, 5, 125, 126, 65_535] {
            self.add(format!("{size} bytes with a length of 64 bits"), &[odd(size, Length::SixtyFour)]);
        }
        let huge = [&[FIN | BINARY, 0xff][..], &(1u64 << 63).to_be_bytes(), &MASK].concat();
        self.raw("a length with the highest bit", huge);
        let large = [&[FIN | BINARY, 0xff][..], &(1u64 << 40).to_be_bytes(), &MASK, b"some"].concat();
        self.raw("a length of a tebibyte", large);
        for (name, mask) in [("zeros", [0; 4]), ("ones", [0xff; 4]), ("one byte", [0, 0, 0, 1])] {
            let masked = framed(FIN | TEXT, b"hello", Length::Shortest, Some(mask));
            self.add(format!("a mask of {name}"), &[masked]);
        }
        self.add("many messages", &vec![text("again"); 500]);
    }

    /// RFC 6455 §5.5.
    fn controls(&mut self) {
        for (name, opcode) in [("ping", PING), ("pong", PONG)] {
            for size in [0, 1, 125, 126, 65_536] {
                self.add(format!("a {name} of {size} bytes"), &[frame(FIN | opcode, &vec![b'p'; size])]);
            }
            self.add(format!("a {name} that is not final"), &[frame(MORE | opcode, b"p"), text("behind")]);
        }
        self.add("ten pings", &vec![frame(FIN | PING, b"ping"); 10]);
        self.add("a ping with bytes that are no text", &[frame(FIN | PING, &[0, 0xff, 0xc0])]);
    }

    /// RFC 6455 §5.5.1, §7.4.
    fn closes(&mut self) {
        self.raw("a close without a code", frame(FIN | CLOSE, b""));
        self.raw("a close of one byte", frame(FIN | CLOSE, &[3]));
        self.raw("a close of 125 bytes", close(1000, &[b'r'; 123]));
        self.raw("a close of 126 bytes", close(1000, &[b'r'; 124]));
        self.raw("a close whose reason is no text", close(1000, &[0xce, 0xba, 0xff]));
        self.raw("a close whose reason is cut", close(1000, &[0xe2, 0x82]));
        self.raw("a close that is not final", frame(MORE | CLOSE, &[3, 232]));
        let codes =
            [0, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013];
        for code in codes
            .into_iter()
            .chain([1014, 1015, 1016, 1100, 2000, 2999, 3000, 3999, 4000, 4999, 5000, 65_535])
        {
            self.raw(format!("a close with {code}"), close(code, b"why"));
        }
        self.raw("a message behind a close", [close(1000, b""), text("late")].concat());
        self.raw("a ping behind a close", [close(1000, b""), frame(FIN | PING, b"late")].concat());
        self.raw("two closes", [close(1000, b"one"), close(1001, b"two")].concat());
        self.raw("no frame behind a close", [close(1000, b""), b"GET / HTTP/1.1\r\n\r\n".to_vec()].concat());
    }

    /// RFC 6455 §5.2: bits, opcodes and masks.
    fn reserved(&mut self) {
        for bits in 1..8u8 {
            self.add(
                format!("text with the reserved bits {bits:03b}"),
                &[frame(FIN | bits << 4 | TEXT, b"x")],
            );
        }
        for (name, opcode) in [("a ping", PING), ("a close", CLOSE), ("a continuation", CONTINUATION)] {
            self.add(format!("{name} with a reserved bit"), &[frame(FIN | 0x40 | opcode, b"")]);
        }
        for opcode in (3..8u8).chain(11..16) {
            self.add(format!("the opcode {opcode}"), &[text("before"), frame(FIN | opcode, b"x")]);
        }
        for (name, opcode) in [("text", TEXT), ("a ping", PING), ("a close", CLOSE)] {
            let bare = framed(FIN | opcode, b"", Length::Shortest, None);
            self.add(format!("{name} without a mask"), &[bare]);
        }
        self.add(
            "text without a mask behind one with a mask",
            &[text("masked"), framed(FIN | TEXT, b"bare", Length::Shortest, None)],
        );
    }

    /// RFC 6455 §5.4.
    fn fragments(&mut self) {
        let (first, middle, last) =
            (frame(MORE | TEXT, b"one "), frame(MORE | CONTINUATION, b"two "), frame(FIN, b"three"));
        let (ping, pong) = (frame(FIN | PING, b"between"), frame(FIN | PONG, b"between"));
        self.add("two fragments", &[first.clone(), last.clone()]);
        self.add("three fragments", &[first.clone(), middle.clone(), last.clone()]);
        self.add(
            "a ping between fragments",
            &[first.clone(), ping.clone(), middle.clone(), ping, last.clone()],
        );
        self.add("a pong between fragments", &[first.clone(), pong, last.clone()]);
        self.add("a close between fragments", std::slice::from_ref(&first));
        self.add("text between fragments", &[first.clone(), text("another"), last.clone()]);
        self.add("another first fragment", &[first.clone(), first.clone(), last.clone()]);
        self.add("a last fragment alone", std::slice::from_ref(&last));
        self.add("a middle fragment alone", std::slice::from_ref(&middle));
        self.add("a last fragment behind a message", &[text("whole"), last]);
        self.add("a message that never ends", &[first, middle]);
        self.add("empty fragments", &[frame(TEXT, b""), frame(0, b""), frame(FIN, b"")]);
        self.add("an empty last fragment", &[frame(TEXT, b"all"), frame(FIN, b"")]);
        let bytes: Vec<_> = (0..100).map(|at| frame(if at == 0 { TEXT } else { 0 }, b"f")).collect();
        self.add("a hundred fragments", &[bytes.concat(), frame(FIN, b"")]);
        let chunk = vec![7; 64 * 1024];
        let large: Vec<_> = (0..16).map(|at| frame(if at == 0 { BINARY } else { 0 }, &chunk)).collect();
        self.add("a mebibyte in fragments", &[large.concat(), frame(FIN, b"")]);
    }

    /// RFC 6455 §8.1.
    fn utf8(&mut self) {
        let valid =
            ["\u{7f}", "\u{80}", "\u{7ff}", "\u{800}", "\u{d7ff}", "\u{e000}", "\u{ffff}", "\u{10ffff}"];
        self.add("the borders of UTF-8", &[text(&valid.concat())]);
        self.add("text of four languages", &[text("Grüße κόσμε мир 世界 🌍")]);
        let invalid: [(&str, &[u8]); 12] = [
            ("a continuation byte alone", &[0x80]),
            ("an overlong slash", &[0xc0, 0xaf]),
            ("an overlong NUL", &[0xe0, 0x80, 0x80]),
            ("a surrogate", &[0xed, 0xa0, 0x80]),
            ("a pair of surrogates", &[0xed, 0xa0, 0x80, 0xed, 0xb0, 0x80]),
            ("beyond the last code point", &[0xf4, 0x90, 0x80, 0x80]),
            ("five bytes", &[0xf8, 0x88, 0x80, 0x80, 0x80]),
            ("0xfe", &[0xfe]),
            ("0xff", b"hello\xff"),
            ("two of three bytes", &[0xe2, 0x82]),
            ("three of four bytes", &[0xf0, 0x9f, 0x8c]),
            ("a first byte and text", &[0xce, b'a']),
        ];
        for (name, bytes) in invalid {
            self.add(format!("text with {name}"), &[text("before"), frame(FIN | TEXT, bytes)]);
        }
        self.add("binary that is no text", &[frame(FIN | BINARY, &[0xff, 0xfe, 0x80])]);
        let euro = "€".as_bytes();
        self.add("a character in two fragments", &[frame(TEXT, &euro[..1]), frame(FIN, &euro[1..])]);
        self.add(
            "a character in three fragments",
            &[frame(TEXT, &euro[..1]), frame(0, &euro[1..2]), frame(FIN, &euro[2..])],
        );
        self.add("a fragment that is no text", &[frame(TEXT, b"fine"), frame(FIN, &[0xff])]);
        self.add("a message that ends within a character", &[frame(TEXT, b"fine"), frame(FIN, &euro[..2])]);
    }

    /// The client closes its direction in the middle of a frame.
    fn ends(&mut self) {
        self.raw("nothing", Vec::new());
        self.raw("a message and no close", text("hello"));
        self.raw("one byte", vec![FIN | TEXT]);
        self.raw("a header without its mask", text("hello")[..3].to_vec());
        self.raw("a frame without its end", text("hello")[..8].to_vec());
        self.raw("a fragment and no close", frame(TEXT, b"hello"));
        self.raw("half a close", close(1000, b"")[..6].to_vec());
        self.raw("no frames at all", b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec());
        self.raw("zeros", vec![0; 64]);
        self.raw("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec());
    }

    /// Some of the cases again, with writes of one byte.
    fn in_bytes(&mut self) {
        let again = |case: &Case| case.bytes.len() < 200 && case.name.len().is_multiple_of(3);
        let again: Vec<_> = self.0.iter().filter(|case| again(case)).collect();
        let again: Vec<_> =
            again.iter().map(|case| (format!("{}, byte by byte", case.name), case.bytes.clone())).collect();
        self.0.extend(again.into_iter().map(|(name, bytes)| Case { name, bytes, bytewise: true }));
    }
}
