//! The small languages of the knobs: query strings, durations as Go writes them, clean paths. Pure.

use std::time::Duration;

/// The query of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'q>(pub(crate) &'q str);

impl Query<'_> {
    /// The first value of `name`, decoded.
    pub(crate) fn first(self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.0.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The first value of `name` as a number.
    pub(crate) fn number<N: std::str::FromStr>(self, name: &str) -> Option<N> {
        self.first(name)?.parse().ok()
    }

    /// The first value of `name` as a duration; an empty one is none.
    pub(crate) fn duration(self, name: &str) -> Result<Option<Duration>, String> {
        match self.first(name) {
            Some(text) if !text.is_empty() => duration(&text).map(Some),
            _ => Ok(None),
        }
    }
}

/// A duration such as `3s`, `1.5h` or `1m30s`. Negative ones are no time at all.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() || seconds == 0.0 {
        let digits = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(invalid)?;
        let value: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let length = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += value * unit(&rest[..length]).ok_or_else(invalid)?;
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
    }
    if negative { Ok(Duration::ZERO) } else { Duration::try_from_secs_f64(seconds).map_err(|_| invalid()) }
}

/// The seconds of a unit.
fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ns" => 1e-9,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

/// The path without empty and dot segments, as Go's router wants it; `None` when it is that already.
pub(crate) fn cleaned(path: &str) -> Option<String> {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    let clean = format!("/{}{slash}", kept.join("/"));
    (clean != path).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query("a=1&b=x%20y+z&a=2&c&d=%zz");
        assert_eq!(query.first("a").as_deref(), Some("1"));
        assert_eq!(query.first("b").as_deref(), Some("x y z"));
        assert_eq!(query.first("c").as_deref(), Some(""));
        assert_eq!(query.first("d").as_deref(), Some("%zz"));
        assert_eq!(query.first("e"), None);
        assert_eq!(query.number::<u8>("a"), Some(1));
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in
            [("3s", 3000), ("100ms", 100), ("1.5s", 1500), ("1m30s", 90_000), ("0", 0), ("-2s", 0), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for text in ["", "3", "s", "3x", "1.2.3s", "3s4", "1e3s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_paths_with_dot_or_empty_segments_are_cleaned() {
        for clean in ["/", "/a", "/a/", "/a/b.c/..d", "/%2e/a"] {
            assert_eq!(cleaned(clean), None, "{clean}");
        }
        for (path, clean) in [("/./foo", "/foo"), ("/foo/../bar", "/bar"), ("/..", "/"), ("/a//b/", "/a/b/")]
        {
            assert_eq!(cleaned(path).as_deref(), Some(clean));
        }
    }
}
