//! Paths: normalising either form again changes nothing, nothing unresolved remains, and a naive resolution agrees.

use fairway_http::path::{decode, is_plain, normalise};
use fairway_http::{Method, Target, TargetForm};

/// Any bytes as a path.
pub(crate) fn path(input: &[u8]) {
    let (mut normal, mut decoded) = (Vec::new(), Vec::new());
    let (normalised, plainly) = (normalise(input, &mut normal), decode(input, &mut decoded));
    if is_plain(input) {
        assert_eq!((normalised, plainly), (Ok(()), Ok(())));
        assert_eq!((&normal[..], &decoded[..]), (input, input));
    }
    if normalised.is_ok() && input != b"*" {
        resolved(&normal);
        assert!(normal.iter().all(u8::is_ascii_graphic));
        let mut again = Vec::new();
        assert_eq!(normalise(&normal, &mut again), Ok(()));
        assert_eq!(again, normal, "the normal form is final");
        assert_eq!(
            naive(&unescaped(input, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))),
            normal
        );
    }
    // An escaped slash is no separator in one form and a slash in the other, so they must agree only without one.
    let escapes_slash = input.windows(3).any(|three| three.eq_ignore_ascii_case(b"%2f"));
    if normalised.is_ok() && !escapes_slash {
        let mut then_decoded = Vec::new();
        assert_eq!((decode(&normal, &mut then_decoded), plainly), (Ok(()), Ok(())));
        assert_eq!(then_decoded, decoded, "what is normal means the same");
    }
    split(input);
    if plainly.is_ok() && input != b"*" {
        resolved(&decoded);
        assert!(!decoded.contains(&0));
        assert_eq!(naive(&unescaped(input, |_| true)), decoded);
    }
}

/// As a target: it consists of path and query, and neither contains parts of the other.
fn split(input: &[u8]) {
    let Ok(target) = Target::parse(Method::Get, input) else { return };
    assert!(input.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#'));
    assert!(target.path.starts_with(b"/") && !target.path.contains(&b'?'));
    if target.form == TargetForm::Origin {
        let query = target.query.map(|query| [b"?", query].concat()).unwrap_or_default();
        assert_eq!([target.path, &query].concat(), input);
    }
}

fn resolved(path: &[u8]) {
    assert!(path.starts_with(b"/"));
    let segments: Vec<_> = path[1..].split(|&byte| byte == b'/').collect();
    let (last, before) = segments.split_last().expect("a split has a part");
    assert!(before.iter().all(|segment| !segment.is_empty()), "an empty segment: {path:?}");
    assert!(before.iter().chain([last]).all(|&segment| segment != b"." && segment != b".."), "{path:?}");
}

fn unescaped(path: &[u8], decodes: impl Fn(u8) -> bool) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < path.len() {
        if path[at] == b'%' {
            let digits = str::from_utf8(&path[at + 1..at + 3]).expect("accepted");
            let byte = u8::from_str_radix(digits, 16).expect("accepted");
            if decodes(byte) {
                out.push(byte);
            } else {
                out.extend(format!("%{byte:02X}").bytes());
            }
            at += 3;
        } else {
            out.push(path[at]);
            at += 1;
        }
    }
    out
}

fn naive(path: &[u8]) -> Vec<u8> {
    let mut stack: Vec<&[u8]> = Vec::new();
    let segments: Vec<_> = path.split(|&byte| byte == b'/').skip(1).collect();
    for segment in &segments {
        match *segment {
            b"" | b"." => {}
            b".." => drop(stack.pop().expect("accepted")),
            segment => stack.push(segment),
        }
    }
    let mut out = vec![b'/'];
    out.extend(stack.join(&b'/'));
    let directory = matches!(segments.last(), Some(&(b"" | b"." | b"..")));
    if directory && out.len() > 1 {
        out.push(b'/');
    }
    out
}
