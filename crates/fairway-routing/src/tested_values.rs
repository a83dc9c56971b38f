//! Compiled value tests, for blocked clients and targets that are not logged.

use std::sync::Arc;

use fairway_http::{Head, Known};
use fairway_model::{BlockedClients, ValueTest};
use fairway_pattern::{LONGEST_TEXT, Pattern};

/// Compiled tests, any of which may match.
#[derive(Clone, Debug, Default)]
pub struct ValueTests(Box<[CompiledValueTest]>);

#[derive(Clone, Debug)]
enum CompiledValueTest {
    AnyCase(Arc<str>),
    /// `None` if it cannot be compiled: it is unknown what it would match.
    Found(Option<Arc<Pattern>>),
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestResult {
    Covered,
    Not,
    /// The value is too long to compare, or the test cannot be compiled.
    Unknown,
}

impl ValueTests {
    /// Compiles them.
    #[must_use]
    pub fn compiled(tests: &[ValueTest]) -> Self {
        let compiled = |test: &ValueTest| match test {
            ValueTest::AnyCase(text) => CompiledValueTest::AnyCase(Arc::clone(text)),
            ValueTest::Found { pattern, ignore_case } => {
                CompiledValueTest::Found(Pattern::anywhere(pattern, *ignore_case).ok())
            }
        };
        Self(tests.iter().map(compiled).collect())
    }

    /// Whether there are no tests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a value certainly matches one of them.
    #[must_use]
    pub fn hold(&self, value: &[u8]) -> bool {
        self.0.iter().any(|test| test.compared(value) == TestResult::Covered)
    }

    /// Whether a value may match one of them: one that cannot be compared does, so that clients cannot evade the test.
    #[must_use]
    pub fn may_hold(&self, value: &[u8]) -> bool {
        self.0.iter().any(|test| test.compared(value) != TestResult::Not)
    }
}

impl CompiledValueTest {
    fn compared(&self, value: &[u8]) -> TestResult {
        let is_covered = match self {
            Self::AnyCase(text) => value.eq_ignore_ascii_case(text.as_bytes()),
            // As in an nginx `map`, where an empty value is not compared with regular expressions.
            Self::Found(_) if value.is_empty() => false,
            Self::Found(Some(pattern)) if value.len() <= LONGEST_TEXT => pattern.is_match(value),
            Self::Found(_) => return TestResult::Unknown,
        };
        if is_covered { TestResult::Covered } else { TestResult::Not }
    }
}

/// Compiled: clients that are refused with 403.
#[derive(Clone, Debug)]
pub struct BlockedClientsCheck {
    source: Arc<BlockedClients>,
    user_agents: ValueTests,
    referers: ValueTests,
}

/// Equal if compiled from the same value.
impl PartialEq for BlockedClientsCheck {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source) || self.source == other.source
    }
}

impl Eq for BlockedClientsCheck {}

impl BlockedClientsCheck {
    pub(crate) fn compiled(blocked: &Arc<BlockedClients>) -> Self {
        Self {
            user_agents: ValueTests::compiled(&blocked.user_agents),
            referers: ValueTests::compiled(&blocked.referers),
            source: Arc::clone(blocked),
        }
    }

    /// The header for which a client is blocked.
    #[must_use]
    pub fn by_header(&self, request: &Head) -> Option<Known> {
        let known_if_covered =
            |known, tests: &ValueTests| covers_field(tests, request, known).then_some(known);
        known_if_covered(Known::UserAgent, &self.user_agents)
            .or_else(|| known_if_covered(Known::Referer, &self.referers))
    }
}

/// Whether a value of the header matches a test, or all of them joined, which is how a backend may read them.
fn covers_field(tests: &ValueTests, request: &Head, known: Known) -> bool {
    if tests.is_empty() {
        return false;
    }
    let mut values = request.all(known);
    let first = values.next().unwrap_or_default();
    let mut rest = values.peekable();
    if rest.peek().is_none() {
        return tests.may_hold(first);
    }
    let mut joined = first.to_vec();
    let covered_values = rest.fold(tests.may_hold(first), |covered, value| {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(value);
        covered || tests.may_hold(value)
    });
    covered_values || tests.may_hold(&joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, ignore_case: bool) -> ValueTest {
        ValueTest::Found { pattern: pattern.into(), ignore_case }
    }

    #[test]
    fn a_text_is_compared_without_case_and_a_pattern_is_found_anywhere() {
        let tests = ValueTests::compiled(&[
            ValueTest::AnyCase("Bad Bot".into()),
            found("Spider$", false),
            found("^curl/", true),
        ]);
        for covered in ["bad bot", "BAD BOT", "x Spider", "CURL/8", "curl/7 x"] {
            assert!(tests.hold(covered.as_bytes()) && tests.may_hold(covered.as_bytes()), "{covered}");
        }
        for other in ["", "bad bot 1", "spider", "Spider x", "x curl/8"] {
            assert!(!tests.hold(other.as_bytes()) && !tests.may_hold(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn no_pattern_is_found_in_an_empty_value_and_a_text_may_be_empty() {
        assert!(!ValueTests::compiled(&[found("^$", false), found(".*", false)]).may_hold(b""));
        assert!(ValueTests::compiled(&[ValueTest::AnyCase("".into())]).hold(b""));
    }

    #[test]
    fn values_that_cannot_be_compared_may_match_but_never_certainly() {
        let long = vec![b'a'; LONGEST_TEXT + 1];
        for tests in [&[found("b", false)][..], &[found("(", false)]] {
            let tests = ValueTests::compiled(tests);
            assert!(!tests.hold(&long) && tests.may_hold(&long));
        }
        let unreadable = ValueTests::compiled(&[found("(", false)]);
        assert!(!unreadable.hold(b"a") && unreadable.may_hold(b"a"));
    }

    fn request(fields: &[(Known, &str)]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/");
        fields.iter().for_each(|(known, value)| head.append(known.name().as_bytes(), value.as_bytes()));
        head
    }

    #[test]
    fn a_client_is_blocked_by_either_header_by_each_value_and_by_all_of_them_as_one() {
        let blocked = BlockedClientsCheck::compiled(&Arc::new(BlockedClients {
            user_agents: vec![found("bot", true), ValueTest::AnyCase("a, b".into())],
            referers: vec![ValueTest::AnyCase("".into())],
        }));
        let with_referer = |fields: &[(Known, &str)]| {
            let fields: Vec<_> =
                fields.iter().copied().chain([(Known::Referer, "https://a.test/")]).collect();
            blocked.by_header(&request(&fields))
        };
        assert_eq!(with_referer(&[]), None);
        assert_eq!(with_referer(&[(Known::UserAgent, "Bot")]), Some(Known::UserAgent));
        assert_eq!(
            with_referer(&[(Known::UserAgent, "x"), (Known::UserAgent, "bot")]),
            Some(Known::UserAgent)
        );
        assert_eq!(with_referer(&[(Known::UserAgent, "a"), (Known::UserAgent, "b")]), Some(Known::UserAgent));
        assert_eq!(with_referer(&[(Known::UserAgent, "b"), (Known::UserAgent, "a")]), None);
        assert_eq!(blocked.by_header(&request(&[(Known::UserAgent, "x")])), Some(Known::Referer));
    }
}
