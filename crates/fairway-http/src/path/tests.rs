//! Both forms of a path, as tables.

use super::*;

fn form(
    normalise: fn(&[u8], &mut Vec<u8>) -> Result<(), Malformed>,
    path: &str,
) -> Result<String, Malformed> {
    let mut out = b"before".to_vec();
    normalise(path.as_bytes(), &mut out)?;
    Ok(String::from_utf8_lossy(out.strip_prefix(b"before").unwrap()).into_owned())
}

#[track_caller]
fn check_both_forms(path: &str, expected: &str) {
    assert_eq!(form(normalise, path).as_deref(), Ok(expected), "{path}");
    assert_eq!(form(decode, path).as_deref(), Ok(expected), "{path}");
}

#[track_caller]
fn neither(path: &str, expected: Malformed) {
    assert_eq!(form(normalise, path), Err(expected), "{path:?}");
    assert_eq!(form(decode, path), Err(expected), "{path:?}");
}

#[test]
fn a_plain_path_is_its_own_form() {
    for path in ["/", "/a", "/a/b.c/", "/a.b/~c_d-e", "/a;b=c/d,e", "*", "/a/b:c@d", "/a..", "/a/b.."] {
        assert!(is_plain(path.as_bytes()), "{path}");
        check_both_forms(path, path);
    }
}

#[test]
fn a_path_with_another_normal_form_is_not_plain() {
    for path in [
        "", "a", "//", "/a//b", "/.", "/..", "/a/./b", "/a/..", "/%41", "/a%", "/a b", "/\u{e9}", "/\0",
        "/.a", "/\x7f", "**",
    ] {
        assert!(!is_plain(path.as_bytes()), "{path:?}");
    }
}

/// The result of [`is_plain`], computed byte by byte.
fn is_plain_bytewise(path: &[u8]) -> bool {
    let [b'/', rest @ ..] = path else { return path == b"*" };
    let mut pairs = path.iter().zip(rest);
    !pairs.any(|(before, byte)| {
        let begins_segment = *before == b'/';
        *byte == b'%' || !byte.is_ascii_graphic() || begins_segment && matches!(byte, b'/' | b'.')
    })
}

#[test]
fn each_byte_counts_in_every_place_and_with_the_one_before_it() {
    for length in 2..=18 {
        for place in 1..length {
            for before in [b'/', b'.', b'b'] {
                for byte in 0..=255 {
                    let mut path = vec![b'b'; length];
                    path[0] = b'/';
                    (path[place - 1], path[place]) = (before, byte);
                    assert_eq!(is_plain(&path), is_plain_bytewise(&path), "{path:?}");
                }
            }
        }
    }
}

#[test]
fn dot_segments_are_removed() {
    check_both_forms("/a/./b", "/a/b");
    check_both_forms("/a/../b", "/b");
    check_both_forms("/a/b/../../c", "/c");
    check_both_forms("/a/.", "/a/");
    check_both_forms("/a/..", "/");
    check_both_forms("/a/b/..", "/a/");
    check_both_forms("/./", "/");
    check_both_forms("/a/b/c/./../../g", "/a/g");
}

#[test]
fn only_whole_segments_are_dot_segments() {
    for path in ["/.well-known/x", "/...", "/a/.../b", "/..a", "/a./b", "/a/.b."] {
        check_both_forms(path, path);
    }
}

#[test]
fn duplicate_slashes_are_merged() {
    check_both_forms("//", "/");
    check_both_forms("//a///b//", "/a/b/");
    check_both_forms("/a//../b", "/b");
    check_both_forms("/a/.//b", "/a/b");
}

#[test]
fn escaped_unreserved_bytes_are_decoded_before_dots_are_resolved() {
    check_both_forms("/%41%7e%2D", "/A~-");
    check_both_forms("/a/%2e%2E/b", "/b");
    check_both_forms("/a/%2e/b", "/a/b");
}

#[test]
fn other_escapes_stay_with_upper_case_digits_or_are_decoded() {
    for (path, normal, decoded) in [
        ("/a%2fb", "/a%2Fb", "/a/b"),
        ("/a%2F..%2fb", "/a%2F..%2Fb", "/b"),
        ("/a%20b", "/a%20b", "/a b"),
        ("/%c3%a9", "/%C3%A9", "/\u{e9}"),
        ("/%252e", "/%252e", "/%2e"),
        ("/a%3fb%23", "/a%3Fb%23", "/a?b#"),
        ("/%2f%2fa", "/%2F%2Fa", "/a"),
        ("/a/%5c..", "/a/%5C..", "/a/\\.."),
    ] {
        assert_eq!(form(normalise, path).as_deref(), Ok(normal), "{path}");
        assert_eq!(form(decode, path).as_deref(), Ok(decoded), "{path}");
    }
}

#[test]
fn a_path_above_the_root_is_refused() {
    for path in ["/..", "/../a", "/a/../..", "/a/../../b", "/%2e%2e/a", "/./..", "//.."] {
        neither(path, Malformed::PathAboveRoot);
    }
    assert_eq!(form(decode, "/a%2f..%2f..%2fb"), Err(Malformed::PathAboveRoot));
}

#[test]
fn invalid_escapes_nul_and_raw_bytes_are_refused() {
    for path in ["/%", "/%4", "/%zz", "/a%4", "/%-1", "/% 1", "/%%41"] {
        neither(path, Malformed::PathEscape);
    }
    neither("/a%00b", Malformed::PathNul);
    for path in ["/\u{e9}", "/a b", "/\0", "/\x7f", "/a\r\n"] {
        neither(path, Malformed::PathByte);
    }
}

#[test]
fn a_path_begins_with_a_slash() {
    for path in ["", "a", "**", "a/b"] {
        neither(path, Malformed::TargetInvalid);
    }
}

/// The path as an endpoint reads it that decodes every escape and resolves nothing.
fn unescaped(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = path.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'%' => {
                out.push(escaped(rest.first(), rest.get(1)).unwrap());
                rest = &rest[2..];
            }
            byte => out.push(*byte),
        }
    }
    out
}

#[test]
fn escaped_slashes_stay_unless_they_took_part_in_resolving_segments() {
    for (path, expected) in [
        ("/a%2fb", "/a%2Fb"),
        ("/a%2Fb/../c%2f%7e%5c", "/a/c/~%5C"),
        ("/a%2Fb/../c", "/a/c"),
        ("/%2e%2e%2Fa", ""),
        ("/admin%2F..%2Fpublic", "/public"),
        ("/admin/%2e.%2Fpublic/a%2Fb", "/public/a/b"),
        ("/%2Fa", "/a"),
        ("/a%2F", "/a%2F"),
        ("/a%2F/b", "/a/b"),
        ("/a%2F.", "/a/"),
        ("/a%252F..%252Fb", "/a%252F..%252Fb"),
        ("/a/..%5Cb;c", "/a/..%5Cb;c"),
    ] {
        assert_eq!(form(normalise_as_decoded, path).unwrap_or_default(), expected, "{path}");
    }
}

#[test]
fn decoding_a_path_twice_gives_the_matched_text() {
    const PARTS: [&str; 7] = ["/", ".", "%2F", "%2e", "a", "%25", "%5c"];
    let mut accepted = 0;
    for number in 0..PARTS.len().pow(5) {
        let parts = (0..5).scan(number, |rest, _| {
            let part = PARTS[*rest % PARTS.len()];
            *rest /= PARTS.len();
            Some(part)
        });
        let path: String = std::iter::once("/").chain(parts).collect();
        let (matched, found) = (form(decode, &path), form(normalise_as_decoded, &path));
        match (&matched, &found) {
            (Ok(matched), Ok(found)) => assert_eq!(unescaped(found), matched.as_bytes(), "{path}"),
            // Such a request is refused if either form is invalid.
            (Err(_), found) => assert!(found.is_err(), "{path}"),
            (Ok(_), Err(problem)) => assert_eq!(form(normalise, &path), Err(*problem), "{path}"),
        }
        accepted += usize::from(found.is_ok_and(|found| found.contains("%2F")));
    }
    assert!(accepted > 500, "escaped slashes of {accepted} paths stay");
}
