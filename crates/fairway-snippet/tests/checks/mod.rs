//! Invariants for any snippet, used by the property tests and the fuzz target. Panics on violations.

use fairway_snippet::{HttpSnippet, RulePaths, host_snippet, http_snippet, parse_directives, path_snippet};

/// Any text as a snippet of each kind: parsing is deterministic and yields values, or a problem with a line of the
/// text.
pub(crate) fn snippet(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines = u32::try_from(text.lines().count().max(1)).unwrap_or(u32::MAX);
    let parsed = match parse_directives("snippet", &text) {
        Ok(parsed) => parsed,
        Err(problem) => {
            assert!((1..=lines + 1).contains(&problem.line), "{problem}");
            assert!(!problem.to_string().contains('\n'), "{problem}");
            return;
        }
    };
    assert_eq!(parse_directives("snippet", &text).as_ref(), Ok(&parsed));
    let http = http_snippet(&parsed);
    let maps = http.as_ref().map(|http| http.maps.clone()).unwrap_or_default();
    let path = path_snippet(&parsed, &maps);
    let host = host_snippet(&parsed, &[], &HttpSnippet::default());
    for problem in
        [http.err(), path.as_ref().err().cloned(), host.as_ref().err().cloned()].into_iter().flatten()
    {
        assert!((1..=lines + 1).contains(&problem.line), "{problem}");
        assert!(!problem.to_string().contains('\n'), "{problem}");
    }
    assert_eq!(path, path_snippet(&parsed, &maps));
    if let Ok(host) = host {
        assert!(
            host.guards(RulePaths::Exact("/")).len()
                <= host.guards(RulePaths::Prefix { prefix: "/", exact: None }).len()
        );
    }
}
