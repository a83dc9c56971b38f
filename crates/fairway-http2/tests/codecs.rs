//! Compares with Go's HTTP/2 and nghttp2, by the programs in `conformance/codecs`: the same bytes go to all, and each
//! must give the same result with the same code and read the same fields. Run by `make codecs`, which needs go, python3
//! and libnghttp2.so.14. [`KNOWN`] lists the differences, and who is right.

#![allow(clippy::print_stdout, reason = "the number of known differences is part of the report")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fairway_http2::hpack::{Decoder, Encoder, StringCoding};
use fairway_http2::{Code, Config};

use crate::support::table::{MARK, ServerResult, beginning, frames_to_judge, judged_with_code};
use crate::support::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/codecs")
}

/// Sends all cases to one of the programs and reads its results.
fn run_peer(peer: &str, mode: &str, cases: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut command = match peer {
        "Go" => Command::new("go"),
        _ => Command::new("python3"),
    };
    let arguments = if peer == "Go" { ["run", ".", mode] } else { ["-B", "nghttp2.py", mode] };
    let command = command.args(arguments).current_dir(folder());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let all: Vec<u8> = cases.iter().flat_map(|case| [&length(case)[..], case].concat()).collect();
    let writer = std::thread::spawn(move || input.write_all(&all).unwrap());
    let mut output = child.stdout.take().unwrap();
    let responses = cases.iter().map(|_| {
        let mut length = [0; 4];
        output.read_exact(&mut length).expect("an answer to each case");
        let mut response = vec![0; u32::from_be_bytes(length) as usize];
        output.read_exact(&mut response).expect("a whole answer");
        response
    });
    let responses = responses.collect();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    responses
}

fn length(case: &[u8]) -> [u8; 4] {
    u32::try_from(case.len()).unwrap().to_be_bytes()
}

/// A server's result for a case, with its code.
type Verdict = (ServerResult, Code);

fn ours(input: &[u8]) -> Option<Verdict> {
    let mut peer = Peer::raw(Config::default());
    peer.send(input);
    judged_with_code(peer.server.pending())
}

fn theirs(output: &[u8]) -> Verdict {
    match output {
        // Without any HTTP/2 output.
        b"closed" => (ServerResult::Connection, Code::Protocol),
        _ => judged_with_code(output).unwrap_or((ServerResult::Silent, Code::NoError)),
    }
}

/// Known differences of other codecs and the rule that we follow: which codec, part of the case's name, our result, its
/// result, and why.
type Difference = (&'static str, &'static str, Verdict, Verdict, &'static str);

/// Counts known differences; any other is a failure.
struct Known {
    met: Vec<usize>,
    remaining: BTreeMap<String, (usize, String)>,
}

impl Known {
    fn new() -> Self {
        Known { met: vec![0; KNOWN.len()], remaining: BTreeMap::new() }
    }

    fn note(&mut self, peer: &str, case: &str, ours: Verdict, theirs: Verdict) {
        if ours == theirs {
            return;
        }
        let is = |(known_peer, part, mine, other, _): &Difference| {
            *known_peer == peer && case.contains(part) && (*mine, *other) == (ours, theirs)
        };
        match KNOWN.iter().position(is) {
            Some(at) => self.met[at] += 1,
            None => {
                let kind: Vec<_> = case.split(' ').take(4).collect();
                let group = format!("{peer}, {}: {ours:?}, {theirs:?}", kind.join(" "));
                self.remaining.entry(group).or_insert((0, case.to_owned())).0 += 1;
            }
        }
    }

    fn finish(self) {
        for ((known_peer, part, mine, other, why), met) in KNOWN.iter().zip(&self.met) {
            println!("{met:5} {known_peer:8} {part:28} {mine:?}, {other:?}: {why}");
        }
        let lines = self.remaining.iter().map(|(group, (count, case))| format!("{count} {group}, as {case}"));
        let lines: Vec<_> = lines.collect();
        assert!(lines.is_empty(), "{} groups differ:\n{}", lines.len(), lines.join("\n"));
        let gone: Vec<_> = KNOWN.iter().zip(&self.met).filter(|(_, met)| **met == 0).collect();
        assert!(gone.is_empty(), "differences that are known are gone: {gone:#?}");
    }
}

/// The table, and what fuzzing kept.
fn cases() -> BTreeMap<String, Vec<u8>> {
    let mark = frame(fairway_http2::frame::FrameKind::Ping, 0, 0, &MARK);
    let mut cases = BTreeMap::new();
    for (name, frame) in frames_to_judge() {
        cases.insert(name, [&beginning()[..], &frame, &mark].concat());
    }
    for (name, input) in corpus("h2_server") {
        cases.insert(name, [&input[..], &mark].concat());
    }
    // An input that ends within a frame takes the mark for the rest of it.
    cases.retain(|_, input| ours(input).is_some());
    cases
}

/// The committed corpus of a fuzz target, and the one in the folder named by `FUZZ_CORPUS`.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let corpus_folder = std::env::var_os("FUZZ_CORPUS").map(PathBuf::from);
    let mut all = Vec::new();
    for folder in [Some(committed), corpus_folder].into_iter().flatten() {
        for entry in std::fs::read_dir(folder.join(target)).expect("a corpus") {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            all.push((format!("corpus {target} {name}"), std::fs::read(path).unwrap()));
        }
    }
    all
}

#[test]
#[ignore = "needs go, python3 and libnghttp2: `make codecs`"]
fn servers_agree_on_errors_and_their_codes() {
    let cases = cases();
    let inputs: Vec<_> = cases.values().cloned().collect();
    let mut known = Known::new();
    for peer in ["Go", "nghttp2"] {
        for ((name, input), output) in cases.iter().zip(run_peer(peer, "server", &inputs)) {
            known.note(peer, name, ours(input).unwrap(), theirs(&output));
        }
    }
    println!("{} cases", cases.len());
    known.finish();
}

/// The lines that the programs write.
fn decoded(input: &[u8]) -> String {
    let (mut decoder, mut rest, mut text) = (Decoder::new(4096), input, String::new());
    let hex =
        |bytes: &[u8], text: &mut String| bytes.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
    while let [high, low, more @ ..] = rest {
        let (block, next) = more.split_at(more.len().min(usize::from(*high) << 8 | usize::from(*low)));
        rest = next;
        let mut lines = String::new();
        let result = decoder.decode(block, |line| {
            hex(line.name(), &mut lines);
            lines.push_str(": ");
            hex(line.value(), &mut lines);
            lines.push_str(if line.sensitive { " never\n" } else { "\n" });
        });
        if result.is_err() {
            text.push_str("error\n");
            break;
        }
        text.push_str(&lines);
        text.push('\n');
    }
    text
}

/// Stories of many blocks, valid ones and ones with changed bytes.
fn stories() -> Vec<Vec<u8>> {
    let mut seed = 1u64;
    let mut roll = move |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % sides
    };
    let names = [":method", ":path", "accept", "cookie", "x-same", "X-Other", "authorization", "date", "x"];
    let values = ["", "GET", "/", "a", "gzip, deflate", "0123456789", "text/html; q=0.5", "\u{e9}\u{0}"];
    let mut stories = Vec::new();
    for story in 0..2_000 {
        let strings = if roll(2) == 0 { StringCoding::Plain } else { StringCoding::Huffman };
        let table = [0, 100, 4096][roll(3) as usize];
        let (mut encoder, mut all) = (Encoder::new(strings, table), Vec::new());
        for _ in 0..1 + roll(12) {
            let mut block = Vec::new();
            encoder.begin_block(&mut block);
            for _ in 0..roll(10) {
                let (name, value) =
                    (names[roll(9) as usize], values[roll(8) as usize].repeat(1 + roll(3) as usize));
                encoder.write_field(name.as_bytes(), value.as_bytes(), roll(8) == 0, &mut block);
            }
            if story % 2 == 1 && !block.is_empty() {
                let at = roll(block.len() as u64) as usize;
                block[at] = roll(256) as u8;
            }
            all.extend_from_slice(&u16::try_from(block.len()).unwrap().to_be_bytes());
            all.extend_from_slice(&block);
        }
        stories.push(all);
    }
    // From the corpus, with two-byte lengths.
    for (_, input) in corpus("h2_hpack") {
        let (mut rest, mut all) = (&input[..], Vec::new());
        while let [length, more @ ..] = rest {
            let (block, next) = more.split_at(more.len().min(usize::from(*length)));
            all.extend_from_slice(&[0, block.len() as u8]);
            all.extend_from_slice(block);
            rest = next;
        }
        stories.push(all);
    }
    stories
}

#[test]
#[ignore = "needs go, python3 and libnghttp2: `make codecs`"]
fn field_blocks_are_read_alike() {
    let stories = stories();
    for peer in ["Go", "nghttp2"] {
        let responses = run_peer(peer, "hpack", &stories);
        let mut late = 0;
        let differ = stories.iter().zip(&responses).filter_map(|(story, theirs)| {
            let (ours, theirs) = (decoded(story), String::from_utf8_lossy(theirs).into_owned());
            if peer == "Go" && ours.strip_suffix("error\n").is_some_and(|before| theirs.starts_with(before)) {
                late += usize::from(ours != theirs);
                return None;
            }
            (ours != theirs).then(|| format!("{story:02x?}\nours:\n{ours}\n{peer}:\n{theirs}"))
        });
        let differ: Vec<_> = differ.collect();
        // Go accepts a size update after a field while its table is empty (RFC 7541 §4.2: we are right, and nghttp2
        // agrees: every story must match it).
        assert_eq!(late > 0, peer == "Go", "a difference that is known is gone");
        println!("{peer}: {late} stories with a late size update");
        println!(
            "{} stories, {} blocks that fail",
            stories.len(),
            responses.iter().filter(|it| it.ends_with(b"error\n")).count()
        );
        assert!(
            differ.is_empty(),
            "{} differ, as\n{}",
            differ.len(),
            differ[..differ.len().min(5)].join("\n")
        );
    }
}

/// What our connection may send on stream 1 after this input, if it is still open.
fn our_room(input: &[u8]) -> Option<usize> {
    let mut peer = Peer::raw(Config::default());
    peer.send(input);
    let alive = !peer.server.is_done() && peer.server.send_head(1, &ok(), false);
    peer.sent();
    alive.then(|| peer.server.room(1).min(100_000))
}

/// Windows opened and closed by settings and increments, one after the other.
fn windows() -> Vec<Vec<u8>> {
    let mut seed = 7u64;
    let mut roll = move |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((seed >> 33) % sides).unwrap()
    };
    let sizes = [0, 1, 100, 65_535, 65_536, 90_000, 0x7fff_0000, 0x7fff_ffff, 0x8000_0000];
    let mut all = Vec::new();
    for _ in 0..1_000 {
        let mut input = beginning();
        for _ in 0..1 + roll(5) {
            let size = sizes[roll(sizes.len() as u64)];
            input.extend(match roll(3) {
                0 => settings(&[(4, size)]),
                stream => window_update(u32::try_from(stream - 1).unwrap(), size & 0x7fff_ffff),
            });
        }
        all.push(input);
    }
    all
}

#[test]
#[ignore = "needs go, python3 and libnghttp2: `make codecs`"]
fn windows_are_counted_alike() {
    let inputs = windows();
    let mut alive = 0;
    for (input, answer) in inputs.iter().zip(run_peer("nghttp2", "windows", &inputs)) {
        let (ours, theirs) = (our_room(input), String::from_utf8(answer).unwrap());
        alive += usize::from(ours.is_some());
        assert_eq!(ours.map_or("gone".to_owned(), |room| room.to_string()), theirs, "{input:02x?}");
    }
    println!("{} sequences, {alive} connections that live on", inputs.len());
    assert!(alive > 100, "only {alive}");
}

const SILENT: Verdict = (ServerResult::Silent, Code::NoError);
const NOTHING: Verdict = (ServerResult::Nothing, Code::NoError);

const fn connection(code: Code) -> Verdict {
    (ServerResult::Connection, code)
}

const fn stream(code: Code) -> Verdict {
    (ServerResult::Stream, code)
}

/// Two rules are broken at once, and each codec reports the one it checks first.
const TWO_RULES: &str = "two rules are broken, either may be named (RFC 9113 §5.4)";

/// A stream error for us and a connection error for the other codec: "An endpoint can choose to treat a stream error as
/// a connection error" only where the rule allows it, but it never has to.
const NARROWER: &str = "an error of the stream, which may be one of the connection (RFC 9113 §5.4)";

const KNOWN: &[Difference] = &[
    (
        "Go",
        "bad-preface",
        connection(Code::Protocol),
        SILENT,
        "it closes without GOAWAY, which may be (§3.4)",
    ),
    (
        "Go",
        "flags 0x8 empty",
        connection(Code::Protocol),
        SILENT,
        "padding without its length: it closes without GOAWAY (§6.1, we are right; §5.4.1 SHOULD send it)",
    ),
    (
        "Go",
        "kind 1 stream ",
        connection(Code::FrameSize),
        SILENT,
        "HEADERS without all of their priority: the same (§6.2)",
    ),
    ("Go", "kind 5 stream ", connection(Code::Protocol), SILENT, "PUSH_PROMISE of a client: the same (§8.4)"),
    (
        "Go",
        "padding and more",
        connection(Code::Protocol),
        connection(Code::Compression),
        "it decodes what it has of a block before the frame that interrupts it (§6.10, §4.3)",
    ),
    ("Go", "kind 1 stream 2 ", connection(Code::Protocol), connection(Code::Compression), TWO_RULES),
    (
        "Go",
        "kind 1 stream 2 ",
        connection(Code::Protocol),
        stream(Code::Protocol),
        "even ids are of servers: we (§5.1.1)",
    ),
    (
        "Go",
        "kind 1 stream 5 ",
        stream(Code::StreamClosed),
        connection(Code::Protocol),
        "HEADERS behind RST_STREAM: we (§5.1)",
    ),
    ("Go", "kind 1 stream ", stream(Code::StreamClosed), stream(Code::Protocol), TWO_RULES),
    (
        "Go",
        "kind 2 stream ",
        stream(Code::FrameSize),
        connection(Code::FrameSize),
        "a length of PRIORITY is of the stream: we (§6.3)",
    ),
    ("Go", "priority-length", stream(Code::FrameSize), connection(Code::FrameSize), "the same"),
    ("Go", "kind 3 stream 0 ", connection(Code::Protocol), connection(Code::FrameSize), TWO_RULES),
    ("Go", "kind 4 stream ", connection(Code::Protocol), connection(Code::FrameSize), TWO_RULES),
    ("Go", "kind 6 stream ", connection(Code::Protocol), connection(Code::FrameSize), TWO_RULES),
    (
        "Go",
        "kind 4 stream 0 ",
        NOTHING,
        connection(Code::Protocol),
        "an acknowledgement of nothing has no rule, and is charged (§6.5.3)",
    ),
    (
        "Go",
        "kind 8 stream ",
        connection(Code::Protocol),
        stream(Code::Protocol),
        "an idle stream gets nothing but HEADERS and PRIORITY: we (§5.1)",
    ),
    (
        "Go",
        "kind 8 stream 5 ",
        NOTHING,
        stream(Code::Protocol),
        "a closed stream has no window any more: either (§5.1, §6.9)",
    ),
    (
        "Go",
        "field connection",
        stream(Code::Protocol),
        NOTHING,
        "fields of a connection make a request malformed: we (§8.2.2)",
    ),
    ("Go", "field keep-alive", stream(Code::Protocol), NOTHING, "the same"),
    ("Go", "field transfer-encoding", stream(Code::Protocol), NOTHING, "the same"),
    ("Go", "field upgrade", stream(Code::Protocol), NOTHING, "the same"),
    ("Go", "field other te", stream(Code::Protocol), NOTHING, "the same"),
    ("Go", "field length", stream(Code::Protocol), NOTHING, "a length and no body: we (§8.1.1)"),
    (
        "Go",
        "field bad length",
        stream(Code::Protocol),
        NOTHING,
        "a length that is no number: we (§8.1.1, RFC 9110 §8.6)",
    ),
    ("nghttp2", "after-end", stream(Code::StreamClosed), connection(Code::StreamClosed), NARROWER),
    ("nghttp2", "kind 0 stream ", stream(Code::StreamClosed), connection(Code::StreamClosed), NARROWER),
    ("nghttp2", "kind 1 stream ", stream(Code::StreamClosed), connection(Code::StreamClosed), NARROWER),
    (
        "nghttp2",
        "priority-length",
        stream(Code::FrameSize),
        connection(Code::FrameSize),
        "a length of PRIORITY is of the stream: we (§6.3)",
    ),
    ("nghttp2", "kind 2 stream ", stream(Code::FrameSize), connection(Code::FrameSize), "the same"),
    (
        "nghttp2",
        "priority-own",
        stream(Code::Protocol),
        connection(Code::Protocol),
        "it depends on itself: we (RFC 7540 §5.3.1)",
    ),
    (
        "nghttp2",
        "update-zero",
        stream(Code::Protocol),
        connection(Code::Protocol),
        "an increment of 0 is of the stream: we (§6.9)",
    ),
    ("nghttp2", "kind 8 stream ", stream(Code::Protocol), connection(Code::Protocol), "the same"),
    (
        "nghttp2",
        "corpus h2_server ids",
        connection(Code::Protocol),
        NOTHING,
        "an id that does not rise: we (§5.1.1)",
    ),
    ("nghttp2", "kind 0 stream ", connection(Code::Protocol), connection(Code::StreamClosed), TWO_RULES),
    ("nghttp2", "kind 1 stream ", connection(Code::Protocol), connection(Code::StreamClosed), TWO_RULES),
    ("nghttp2", "kind 1 stream ", connection(Code::Compression), connection(Code::StreamClosed), TWO_RULES),
    (
        "nghttp2",
        "padding and more",
        connection(Code::Protocol),
        connection(Code::Compression),
        "it decodes what it has of a block before the frame that interrupts it (§6.10, §4.3)",
    ),
    ("nghttp2", "kind ", connection(Code::Protocol), connection(Code::FrameSize), TWO_RULES),
    (
        "nghttp2",
        "kind 4 stream 0 ",
        NOTHING,
        connection(Code::Protocol),
        "an acknowledgement of nothing has no rule, and is charged (§6.5.3)",
    ),
    (
        "nghttp2",
        "kind 7 stream 0 ",
        NOTHING,
        connection(Code::Protocol),
        "GOAWAY of a client names streams that a server opens, which no rule makes an error: either (§6.8)",
    ),
];
