//! The meaning of patterns, compared with the naive matcher and documented PCRE behaviour, and their cost.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::clauses::MAX_PATTERN_BYTES;
use crate::finder::MAX_ENGINE_STEPS;
use crate::plain::Plain;
use crate::{Anchor, Finder, GroupBuffer, LONGEST_TEXT, Pattern, literal_start, naive, refusal};

fn compiled(pattern: &str) -> Pattern {
    Pattern::new(pattern, Anchor::Start, true).unwrap_or_else(|why| panic!("{pattern}: {why}"))
}

fn refusal(pattern: &str) -> String {
    match Pattern::new(pattern, Anchor::Start, true) {
        Ok(_) => format!("{pattern} is accepted"),
        Err(why) => why.to_string(),
    }
}

/// Patterns with texts that match and texts that do not.
fn assert_matches(cases: &[(&str, &[&str], &[&str])]) {
    for (pattern, matching, others) in cases {
        let found = compiled(pattern);
        for (text, expected) in
            matching.iter().map(|text| (text, true)).chain(others.iter().map(|text| (text, false)))
        {
            assert_eq!(found.is_match(text.as_bytes()), expected, "{pattern} on {text:?}");
            assert_eq!(
                naive::is_match(pattern, true, text.as_bytes()),
                expected,
                "naive: {pattern} on {text:?}"
            );
            let begins = text.len() >= found.start().len()
                && text.as_bytes()[..found.start().len()].eq_ignore_ascii_case(found.start());
            assert!(begins || !expected, "{pattern} on {text:?}: {:?} is no start of it", found.start());
        }
    }
}

#[test]
fn a_dollar_is_also_before_a_last_line_feed() {
    assert_matches(&[
        ("^/admin$", &["/admin", "/admin\n", "/ADMIN\n"], &["/admin\n\n", "/admin\nx", "/admins"]),
        (r"/admin\Z", &["/admin", "/admin\n"], &["/admin\n\n"]),
        (r"/admin\z", &["/admin"], &["/admin\n"]),
        ("/a(/|$)(.*)", &["/a", "/a\n", "/a/", "/a/b\nc"], &["/ab", "/a\n\n"]),
        ("/a$$", &["/a", "/a\n"], &["/a\n\n"]),
        ("/a.$", &["/ab", "/ab\n"], &["/a", "/a\n"]),
        ("/a[^b]$", &["/a\n", "/ac\n", "/a\n\n"], &["/a"]),
    ]);
    assert!(refusal("/a$b").contains("nothing but the end may follow $"), "{}", refusal("/a$b"));
    assert!(refusal("/(a$)+").contains("nothing but the end may follow $"));
}

#[test]
fn bytes_are_compared_and_case_is_ascii() {
    assert_matches(&[
        ("/.$", &["/a", "/\t"], &["/", "/\n", "/\u{e9}"]),
        ("/..$", &["/\u{e9}"], &["/a"]),
        ("/caf\u{e9}/(.*)x$", &["/caf\u{e9}/x", "/caf\u{e9}/\rx"], &["/caf\u{c9}/x", "/caf\u{e9}/\n\nx"]),
        ("/[\u{e9}]{2}$", &["/\u{e9}"], &["/e"]),
        (r"/\w$", &["/a", "/_"], &["/\u{17f}", "/-"]),
        (r"/\d$", &["/7"], &["/\u{661}"]),
        (r"/\s$", &["/ ", "/\x0b", "/\n", "/\t"], &["/\u{85}", "/x"]),
        (r"/\h\v$", &["/\t\r"], &["/\r\t"]),
        ("/k$", &["/K"], &["/\u{212a}"]),
        ("/s", &["/S"], &["/\u{17f}"]),
        (r"/ab\b", &["/ab", "/ab/c", "/ab\u{e9}"], &["/abc", "/ab_"]),
        (r"/a\Bb", &["/ab"], &["/a-b"]),
    ]);
    assert!(compiled("/(.*)x$").is_match(b"/\xff\xfex"), "no UTF-8 is needed");
    assert!(refusal(r"/\p{L}").contains("Unicode"));
}

#[test]
fn syntax_has_the_meaning_of_pcre() {
    assert_matches(&[
        ("/a|/b", &["/a", "/b", "/x/b"], &["/x/a"]),
        ("/(?:a|b)$", &["/a", "/b"], &["/x/b"]),
        ("/[]a]$", &["/]", "/a"], &["/b"]),
        ("/[^]a]$", &["/b"], &["/]", "/A"]),
        ("/[a-]$", &["/a", "/-"], &["/b"]),
        (r"/[\w-.]$", &["/a", "/-", "/."], &["/,"]),
        ("/[[:digit:][:^alnum:]]$", &["/1", "/-"], &["/a"]),
        ("/[a&&b]$", &["/a", "/&", "/b"], &["/c"]),
        (r"/\Qa.b|\E/", &["/a.b|/"], &["/axb|/", "/a"]),
        (r"/\x41\x{2f}\0001", &["/a/\x001"], &["/a/1"]),
        ("/a{b}", &["/a{b}"], &["/aab"]),
        ("/a{2}$", &["/aa"], &["/a", "/aaa"]),
        ("/(?-i)a(?i:b)c", &["/aBc"], &["/Abc", "/abC"]),
        ("/(?-i:a(?i)b|c)d", &["/aBD", "/Cd"], &["/Abd"]),
        ("/(?s).$", &["/\n"], &["/"]),
        ("/(?x) a b # c\n d", &["/abd"], &["/a b d"]),
        ("/a(?#b)c", &["/ac"], &["/abc"]),
        (r"/a\Kb", &["/ab"], &["/a"]),
        ("/(?<n>a)(?P<m>b)(?'o'c)", &["/abc"], &["/ab"]),
        ("^^/a", &["/a"], &["a"]),
        ("/(^|a)b", &["/ab"], &["/b"]),
        ("/(a*)*b", &["/b", "/aab"], &["/aac"]),
    ]);
}

#[test]
fn uncertain_syntax_is_rejected_with_a_reason() {
    for (pattern, reason) in [
        (r"/(a)\1", "backreferences are not supported"),
        (r"/(?<n>a)\k<n>", "backreferences are not supported"),
        ("/a++", "a possessive quantifier"),
        ("/(?>a)", "an atomic group"),
        ("/(?|a|b)", "numbers its branches alike"),
        ("/(?R)", "recursion is not supported"),
        ("/(?1)", "recursion"),
        ("/(?(1)a)", "a condition"),
        ("/(*UTF8)a", "a verb"),
        ("/(?m)a", "leave it out"),
        (r"/\R", "\\R is not supported"),
        (r"/\Qa\E+", "after \\Q..\\E"),
        ("/a{,2}", "{,2} is no quantifier"),
        ("/a{3,2}", "{3,2} is no quantifier"),
        ("/a**", "a quantifier follows a quantifier"),
        ("/(*)", "a verb"),
        ("/(+)", "a quantifier follows nothing"),
        (r"/\b+", "a quantifier after"),
        ("/(a", "unclosed group"),
        ("/a)", "unopened group"),
        ("/[a", "unclosed character class"),
        ("/[b-a]", "invalid range"),
        (r"/[a-\d]", "invalid range"),
        ("/[[:foo:]]", "unknown [:class:]"),
        ("/a\\", "ends with a backslash"),
        (r"/\x{1f600}", "no byte"),
        ("/(?<!a)b", "only (?<!..)$"),
        ("/.*(?!a)b", "after something that can end in several places"),
        ("/((?!a).)*", "under a quantifier"),
        ("/(?!a)b|/c", "a | outside of groups"),
        ("/(?=(a))a", "with a capture in it"),
        ("/(?!(?!a))", "in look-around"),
        ("/(?!a)(?!b)(?!c)(?!d)(?!e)(?!f)(?!g)(?!h)(?!i)", "more than 8 parts"),
        ("/(.*)(x|y)[^/]{500}z", "needs more than 256 KiB as an automaton"),
        ("/((a{100}){100}){100}", "needs more than 256 KiB when compiled"),
    ] {
        assert!(refusal(pattern).contains(reason), "{pattern}: {}", refusal(pattern));
    }
    assert!(refusal(&"a".repeat(MAX_PATTERN_BYTES + 1)).contains("longer than 8192 bytes"));
    assert!(refusal(&"(".repeat(8000)).contains("nested"));
}

#[test]
fn look_around_is_match_and_not_match() {
    assert_matches(&[
        (
            "/api/(?!health|version)(.*)",
            &["/api/", "/API/x", "/api/heal"],
            &["/api/health", "/api/Version/1"],
        ),
        ("/(?!public)(.*)", &["/", "/private", "/publi"], &["/public", "/PUBLIC/x"]),
        ("^/(?!a)(?!b).*", &["/c", "/"], &["/a", "/bc"]),
        ("/((?!api).*)$", &["/x", "/x\n"], &["/api", "/apis", "/x\ny"]),
        ("/(?!(a|b)(/|$))(.*)", &["/ax", "/c"], &["/a", "/b/", "/a\n"]),
        ("/v[0-9]{1}/(?=users|teams)[a-z]+$", &["/v1/users", "/v2/teams"], &["/v1/user", "/v1/x"]),
        ("/[a-z]+/(?!x)(.*)", &["/ab/y", "/ab/"], &["/ab/x", "/ab"]),
        ("/app(/|$)(?!metrics)(.*)", &["/app", "/app\n", "/app/", "/app/x"], &["/app/metrics", "/apps"]),
        ("/(?!.*bad)(.*)", &["/good"], &["/x/bad/y"]),
        (r"/(.*)(?<!\.html)$", &["/a.htm", "/"], &["/a.html", "/a.html\n", "/a\nb"]),
        (r"^/[^?]*(?<!\.html)$", &["/a.html\n", "/a"], &["/a.html"]),
        (r"/(.*)(?<=\.php|\.cgi)\z", &["/a.php"], &["/a.php\n", "/a"]),
        ("/foo(?=/|$)", &["/foo", "/foo/", "/foo\n"], &["/foox"]),
        ("/(?!foo\\b)(.*)", &["/foox"], &["/foo", "/foo/"]),
        ("/a(?!b)c(?!d)e*", &["/ac", "/ace"], &["/acd"]),
    ]);
}

#[test]
fn an_unanchored_pattern_matches_like_an_anchored_one_elsewhere() {
    let pattern = Pattern::anywhere("CN=(a|b)", false).unwrap();
    assert!(pattern.is_match(b"CN=a") && pattern.is_match(b"O=x\n,CN=b,C=y"));
    assert!(!pattern.is_match(b"cn=a") && !pattern.is_match(b"CN=c"));
    for refused in ["CN=a)|(b", "CN=(?!admin).*", "CN=.*(?<!admin)$"] {
        assert!(Pattern::anywhere(refused, false).is_err(), "{refused}");
    }
}

#[test]
fn groups_keep_their_numbers_next_to_look_around() {
    for (pattern, path, groups) in [
        ("/api/(?!(health)|version)(.*)", "/api/users", &[None, Some("users")][..]),
        ("/((?!api)[a-z]+)/(.*)", "/web/x/y", &[Some("web"), Some("x/y")]),
        ("/(a)(?:(b)|c)(d)", "/acd", &[Some("a"), None, Some("d")]),
        (r"/(.*)/(.*)(?<!\.html)$", "/a/b/c", &[Some("a/b"), Some("c")]),
        ("/(.*)/api/v([0-9]+)/(.*)", "/x/api/v12/y/z", &[Some("x"), Some("12"), Some("y/z")]),
        ("/q|/x/(.*)", "/a/x/b", &[Some("b")]),
    ] {
        let (finder, mut buffer) = (Finder::new(pattern, true).unwrap(), GroupBuffer::default());
        let found = finder.find(path.as_bytes(), &mut buffer).unwrap();
        let found: Vec<_> =
            (1..=groups.len()).map(|number| found.group(number).map(|it| &path[it])).collect();
        assert_eq!(found, groups, "{pattern}");
    }
    let finder = Finder::new("/(?!a)(.*)", true).unwrap();
    assert!(finder.find(b"/abc", &mut GroupBuffer::default()).is_none());
}

#[test]
fn groups_of_an_earlier_search_are_cleared() {
    let mut buffer = GroupBuffer::default();
    let mut groups = |pattern: &str, text: &[u8]| {
        let finder = Finder::new(pattern, false).unwrap();
        let found = finder.find(text, &mut buffer)?;
        Some([1, 2, 3].map(|number| found.group(number)))
    };
    let (engine, plain) = ("/(a)(b)(c)", "/(.*)");
    assert_eq!(groups(engine, b"/abc"), Some([Some(1..2), Some(2..3), Some(3..4)]));
    assert_eq!(groups(plain, b"/x"), Some([Some(1..2), None, None]));
    assert_eq!(groups(plain, b"/x\ny"), Some([Some(1..2), None, None]), "found by the engine");
    assert_eq!(groups("/(a)?(b)?(x)", b"/x"), Some([None, None, Some(1..2)]));
    assert_eq!(groups(engine, b"/x"), None);
}

#[test]
fn a_group_of_everything_ends_before_a_line_feed_at_any_position() {
    let finder = Finder::new("/(.*)", true).unwrap();
    for length in 0..20 {
        for place in 0..length {
            let mut text = vec![b'a'; length];
            text[place] = b'\n';
            text.insert(0, b'/');
            let mut buffer = GroupBuffer::default();
            let found = finder.find(&text, &mut buffer).unwrap();
            assert_eq!(found.group(1), Some(1..place + 1), "{place} of {length}");
        }
    }
}

#[test]
fn ordinary_patterns_cost_little() {
    for (pattern, steps) in [
        ("/api/(.*)", 0),
        ("/plain", 0),
        ("/something(/|$)(.*)", 13),
        ("/something[0-9]{1,3}/(.*)", 16),
        ("/api/v[0-9]+/(.*)", LONGEST_TEXT as u64),
        ("/api/(?!health|version)(.*)", 21),
        ("/(users|teams|projects|orgs|billing|search|media|images|static|auth)(/|$)(.*)", 15),
    ] {
        let cost = compiled(pattern).cost();
        assert!(cost.steps <= steps, "{pattern}: {cost:?}");
        assert!(cost.memory < 16 * 1024, "{pattern}: {cost:?}");
        assert!(cost.work < 5_000, "{pattern}: {cost:?}");
        let finder = Finder::new(pattern, true).unwrap().cost();
        assert!(finder.memory < 16 * 1024 && finder.steps <= MAX_ENGINE_STEPS, "{pattern}: {finder:?}");
    }
}

#[test]
fn the_work_of_compiling_is_bounded() {
    let digits = "/(.*)[0-9]{9}x[^/]{9}y[^a]{12}z";
    for pattern in [digits, "/.*(a|b).{20}", "/(.*)(x|y)[^/]{500}z1", "/(.*a){12}", "/.*[ab].{9}[cd].{9}"] {
        if let Ok(compiled) = Pattern::new(pattern, Anchor::Start, true) {
            let cost = compiled.cost();
            assert!(
                cost.work <= 2 * refusal::MAX_BUILD_WORK && cost.memory <= 300 * 1024,
                "{pattern}: {cost:?}"
            );
        }
    }
}

/// Patterns over a small alphabet, so that they match the texts often.
#[test]
fn rejects_look_behind_after_the_end() {
    for pattern in [r"/.a$(?=\b)", r"/a$(?!\B)", r"/a\Z(?=(?:\b))"] {
        assert!(Pattern::new(pattern, Anchor::Start, true).is_err(), "{pattern}");
    }
}

fn patterns() -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "a", "b", "/", ".", "[ab]", "[^/]", r"\n", "(?s:.)", "a", "b", "$", r"\b", r"\z", "(?-i:A)", "",
    ]);
    let inner = leaf.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            4 => vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            2 => vec(inner.clone(), 1..4).prop_map(|parts| format!("({})", parts.join("|"))),
            2 => (inner.clone(), select(vec!["*", "?", "+", "{1,2}", "*?"]))
                .prop_map(|(part, times)| format!("(?:{part}){times}")),
            2 => inner.clone().prop_map(|part| format!("(?!{part})")),
            1 => inner.prop_map(|part| format!("(?=(?:{part}))")),
        ]
    });
    let parts = (vec(inner.clone(), 1..4), proptest::option::weighted(0.2, inner));
    parts.prop_map(|(parts, behind)| {
        let end = behind.map(|it| format!("(?<!{it})$")).unwrap_or_default();
        format!("/{}{end}", parts.concat())
    })
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    vec(select(vec![b'a', b'b', b'/', b'\n', b'A', b'a', b'\xe9']), 0..7)
        .prop_map(|rest| [b"/".to_vec(), rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn automata_agree_with_the_naive_matcher(pattern in patterns(), texts in vec(texts(), 20)) {
        let Ok(compiled) = Pattern::new(&pattern, Anchor::Start, true) else { return Ok(()) };
        let finder = Finder::new(&pattern, true);
        for text in texts {
            let expected = naive::is_match(&pattern, true, &text);
            prop_assert_eq!(compiled.is_match(&text), expected, "{:?} on {:?}", pattern, String::from_utf8_lossy(&text));
            if let Ok(finder) = &finder && expected {
                let is_found = finder.find(&text, &mut GroupBuffer::default()).is_some();
                prop_assert!(is_found, "{} on {:?}", pattern, String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn a_literal_start_is_one_of_every_match(pattern in patterns(), texts in vec(texts(), 20)) {
        let Ok(compiled) = Pattern::new(&pattern, Anchor::Start, true) else { return Ok(()) };
        let unread = literal_start(&pattern);
        for text in texts.iter().filter(|text| compiled.is_match(text)) {
            let text = text.to_ascii_lowercase();
            prop_assert!(text.starts_with(unread.to_ascii_lowercase().as_bytes()), "{}: {}", pattern, unread);
            prop_assert!(text.starts_with(compiled.start()), "{}: {:?}", pattern, compiled.start());
        }
    }

    #[test]
    fn simple_patterns_have_the_groups_that_the_engine_finds(
        pattern in "(/|/a|/a/b-_|/A1)(/\\?|\\(/\\|\\$\\))?\\(\\.\\*\\)\\$?",
        ignore_case: bool,
        texts in vec(vec(select(&b"/aAbB1-_x\n\xff"[..]), 0..20), 40),
    ) {
        prop_assert!(Plain::parse(&pattern, ignore_case).is_some(), "{}", pattern);
        let simple = Finder::new(&pattern, ignore_case).unwrap();
        // The same with an empty group at its end, which is not a simple pattern.
        let engine = Finder::new(&format!("{pattern}()"), ignore_case).unwrap();
        for text in texts.iter().flat_map(|text| [text.clone(), [b"/a", &text[..]].concat()]) {
            let groups = |finder: &Finder| {
                let mut buffer = GroupBuffer::default();
                finder.find(&text, &mut buffer).map(|found| [0, 1, 2].map(|group| found.group(group)))
            };
            let (simple, mut expected) = (groups(&simple), groups(&engine));
            if !pattern.contains("(/|$)") && let Some(expected) = &mut expected {
                expected[2] = None;
            }
            prop_assert_eq!(simple, expected, "{} on {:?}", pattern, text);
        }
    }
}
