//! The rules of HTTP/1 as a table of raw cases, each with its section: the bytes and the expected result. `syntax`, `bodies` and
//! `connections` contain the cases; this file runs and evaluates them.

mod bodies;
mod connections;
mod syntax;

use serde_json::{Value, json};

use crate::conformance::client::{SILENT_TURNS, Silence, Turns, exchange};
use crate::conformance::fronts::{Front, fairway};
use crate::conformance::recorder::Recorder;

/// A case.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// `9112 §3.2` is section 3.2 of RFC 9112.
    pub(crate) section: &'static str,
    input: Input,
    expected: Expected,
}

/// The bytes of a case. All parts but one are ordinary.
#[derive(Clone, Copy)]
pub(crate) enum Input {
    /// The complete bytes.
    Raw(&'static [u8]),
    /// The request line; a `Host` follows.
    Line(&'static str),
    /// The target of a GET.
    Target(&'static str),
    /// One or more field lines of a GET.
    Field(&'static [u8]),
    /// The value of `Host`.
    Host(&'static str),
    /// Framing fields of a POST and the bytes after its head.
    Post(&'static str, &'static str),
    /// The bytes after the head of a POST with `Transfer-Encoding: chunked`.
    Chunks(&'static [u8]),
    /// `Raw` of these parts, with the second repeated this many times.
    Long(&'static str, (&'static str, usize), &'static str),
}

/// The expected result.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    /// This status, the end of the connection, and no complete request at the backend.
    Refused(u16),
    /// This status without a request at the backend; the connection may stay.
    Answered(u16),
    /// No response for [`MAX_TURNS`] turns and no request at the backend: the proxy waits for more.
    Waits,
    /// The backend receives these requests: `METHOD target content-bytes`.
    Seen(&'static [&'static str]),
}

pub(crate) const fn case(
    name: &'static str,
    section: &'static str,
    input: Input,
    expected: Expected,
) -> Case {
    Case { name, section, input, expected }
}

/// A GET of `/`, and a POST of `/` with three bytes, as the backend receives them.
pub(crate) const GET: Expected = Expected::Seen(&["GET / 0"]);
pub(crate) const POST: Expected = Expected::Seen(&["POST / 3"]);
pub(crate) const BAD: Expected = Expected::Refused(400);

/// All cases.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    [syntax::CASES, bodies::CASES, connections::CASES].into_iter().flatten()
}

impl Input {
    fn bytes(self) -> Vec<u8> {
        let head = |line: &str, fields: &[u8]| {
            [line.as_bytes(), b" HTTP/1.1\r\nHost: a.test\r\n", fields, b"\r\n"].concat()
        };
        match self {
            Self::Raw(bytes) => bytes.to_vec(),
            Self::Line(line) => format!("{line}\r\nHost: a.test\r\n\r\n").into_bytes(),
            Self::Target(target) => head(&format!("GET {target}"), b""),
            Self::Field(lines) => head("GET /", &[lines, b"\r\n"].concat()),
            Self::Host(host) => format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
            Self::Post(fields, body) => {
                [head("POST /", format!("{fields}\r\n").as_bytes()), body.into()].concat()
            }
            Self::Chunks(body) => [head("POST /", b"Transfer-Encoding: chunked\r\n"), body.to_vec()].concat(),
            Self::Long(before, (part, times), after) => {
                format!("{before}{}{after}", part.repeat(times)).into_bytes()
            }
        }
    }
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    status: Option<u16>,
    closed: bool,
    received: Vec<String>,
    backend: Backend,
}

/// How the requests at the backend relate to the responses of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Agrees,
    /// The backend received other requests than those that the responses belong to.
    Differs,
    /// The backend received something that is not an HTTP/1.1 request; the status is the backend's.
    Refused,
}

impl Outcome {
    /// Describes the deviation from the expected result.
    fn wrong(&self, expected: Expected) -> Option<String> {
        let right = match expected {
            Expected::Refused(status) => {
                self.status == Some(status) && self.closed && self.received.is_empty()
            }
            Expected::Answered(status) => self.status == Some(status) && self.received.is_empty(),
            Expected::Waits => self.status.is_none() && !self.closed && self.received.is_empty(),
            Expected::Seen(seen) => self.received == seen && self.backend == Backend::Agrees,
        };
        (!right || self.backend == Backend::Refused).then(|| self.in_words())
    }

    /// Whether no complete request was forwarded.
    fn is_refused(&self) -> bool {
        self.received.is_empty() && self.backend != Backend::Refused
    }

    fn in_words(&self) -> String {
        let status = self.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        let end = if self.closed { ", closed" } else { "" };
        let backend = match self.backend {
            Backend::Agrees => "",
            Backend::Differs => ", answers differ",
            Backend::Refused => ", the backend refused what came",
        };
        // Some targets have thousands of bytes.
        let received: Vec<String> =
            self.received.iter().map(|seen| seen.chars().take(100).collect()).collect();
        format!("{status}{end}, seen {received:?}{backend}")
    }
}

/// A proxy may take long for 20,000 chunks.
const MAX_TURNS: u64 = 5 * SILENT_TURNS;

/// Sends one case to a proxy in front of `recorder`.
async fn send_case(front: &Front, recorder: &Recorder, silence: &Silence, case: &Case) -> Outcome {
    let (input, expected) = (case.input, case.expected);
    let (before, refused) = recorder.counts();
    let enough = |bytes: &[u8]| {
        let responses = bytes.windows(5).filter(|part| part == b"seen ").count();
        let is_switched = bytes.starts_with(b"HTTP/1.1 101") && bytes.ends_with(b"\r\n\r\n");
        matches!(expected, Expected::Seen(seen) if is_switched || (responses >= seen.len() && bytes.ends_with(b"\n")))
    };
    let returned = exchange(front.http, &input.bytes(), silence, enough).await;
    let forwarded: Vec<_> =
        recorder.requests(before).iter().map(crate::conformance::readers::Message::echoed_text).collect();
    // Responses to HEAD have no content, and a protocol change has no response.
    let is_relevant = |request: &&String| !request.starts_with("HEAD ") && returned.status() != Some(101);
    let differ =
        returned.requests_seen() != forwarded.iter().filter(is_relevant).cloned().collect::<Vec<_>>();
    let backend = match recorder.counts().1 > refused {
        true => Backend::Refused,
        false if differ => Backend::Differs,
        false => Backend::Agrees,
    };
    Outcome { status: returned.status(), closed: returned.is_ended(), received: forwarded, backend }
}

#[tokio::test]
async fn every_http1_rule_is_followed_as_in_the_table() {
    let recorder = Recorder::start().await;
    let front = fairway(recorder.address).await;
    let silence = Silence::Turns(Turns::for_address(front.http), MAX_TURNS);
    let mut wrong = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for case in all() {
        assert!(names.insert(case.name), "two cases are called {}", case.name);
        let outcome = send_case(&front, &recorder, &silence, case).await;
        if let Some(how) = outcome.wrong(case.expected) {
            wrong.push(format!("{} (RFC {}): {how}", case.name, case.section));
        }
    }
    assert!(names.len() >= 300, "{} cases", names.len());
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), names.len(), wrong.join("\n"));
}

/// The results of a proxy for all cases, for the report.
pub(crate) async fn report(front: &Front, recorder: &Recorder) -> Value {
    let (mut same, mut status, mut refuses, mut accepts, mut otherwise) = (0, vec![], vec![], vec![], vec![]);
    let mut total = 0;
    let silence = Silence::Turns(Turns::for_address(front.http), MAX_TURNS);
    for case in all() {
        total += 1;
        let outcome = send_case(front, recorder, &silence, case).await;
        let wanted_seen = matches!(case.expected, Expected::Seen(_));
        let line = json!({"case": case.name, "section": case.section, "came": outcome.in_words()});
        match outcome.wrong(case.expected) {
            None => same += 1,
            Some(_) if !wanted_seen && outcome.is_refused() => status.push(line),
            Some(_) if wanted_seen && outcome.is_refused() => refuses.push(line),
            Some(_) if wanted_seen => otherwise.push(line),
            Some(_) => accepts.push(line),
        }
    }
    json!({"cases": total, "as_expected": same, "refused_with_another_status": status, "refuses": refuses,
        "accepts": accepts, "forwards_otherwise": otherwise})
}
