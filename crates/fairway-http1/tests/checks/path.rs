//! Paths: both forms are final, free of what they resolve, and agree with a naive resolution.

use fairway_message::path::{decode, is_plain, normalise};

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
    if plainly.is_ok() && input != b"*" {
        resolved(&decoded);
        assert!(!decoded.contains(&0));
        assert_eq!(naive(&unescaped(input, |_| true)), decoded);
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
