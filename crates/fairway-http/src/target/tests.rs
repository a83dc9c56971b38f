//! The rules for targets and authorities, one test each.

use super::*;
use crate::head::Span;

fn parse(method: &str, raw: &'static str) -> Result<Target<'static>, Malformed> {
    Target::parse(Method::from_name(method.as_bytes()), raw.as_bytes())
}

/// The head of a request.
fn received(text: &str) -> Head {
    let (line, fields) = text.split_once("\r\n").expect("a first line");
    let parts: Vec<&str> = line.split(' ').collect();
    let version = if parts[2] == "HTTP/1.0" { Version::Http10 } else { Version::Http11 };
    let mut head = Head::new();
    head.receive(line.as_bytes(), version);
    let target = parts[0].len() + 1;
    head.found_request(Span::new(0, parts[0].len()), Span::new(target, target + parts[1].len()));
    for field in fields.split_terminator("\r\n") {
        let (name, value) = field.split_once(':').expect("a field");
        head.append(name.as_bytes(), value.trim().as_bytes());
    }
    head
}

fn parse_target(text: &str) -> Result<Option<(String, Option<u16>)>, Malformed> {
    let head = received(text);
    let target = Target::parse(head.method(), head.target())?;
    Ok(request_authority(&head, &target)?.map(|authority| (authority.host.to_owned(), authority.port)))
}

fn host(text: &str) -> Option<String> {
    parse_target(text).unwrap_or_else(|rule| panic!("{text:?}: {rule}")).map(|(host, _)| host)
}

#[test]
fn origin_form_has_a_path_and_perhaps_a_query() {
    let target = parse("GET", "/a/b?c?d").unwrap();
    assert_eq!(
        (target.form, target.path, target.query),
        (TargetForm::Origin, &b"/a/b"[..], Some(&b"c?d"[..]))
    );
    assert_eq!(parse("GET", "/").unwrap().query, None);
    assert_eq!(parse("GET", "/?").unwrap().query, Some(&b""[..]));
    assert_eq!(parse("GET", "//a").unwrap().form, TargetForm::Origin);
}

#[test]
fn absolute_form_has_scheme_and_authority() {
    let target = parse("GET", "HTTP://a.b:80/c?d").unwrap();
    assert_eq!(target.form, TargetForm::Absolute);
    assert_eq!((target.scheme, target.authority), (Some(&b"HTTP"[..]), Some(&b"a.b:80"[..])));
    assert_eq!((target.path, target.query), (&b"/c"[..], Some(&b"d"[..])));
}

#[test]
fn an_absolute_form_without_a_path_means_the_root_or_the_server() {
    assert_eq!(parse("GET", "http://a").unwrap().path, b"/");
    let with_query = parse("OPTIONS", "http://a?b").unwrap();
    assert_eq!((with_query.path, with_query.query), (&b"/"[..], Some(&b"b"[..])));
    assert_eq!(parse("OPTIONS", "http://a").unwrap().path, b"*");
}

#[test]
fn asterisk_is_for_options_and_authority_form_for_connect() {
    assert_eq!(parse("OPTIONS", "*").unwrap().form, TargetForm::Asterisk);
    assert_eq!(parse("GET", "*"), Err(Malformed::TargetInvalid));
    let target = parse("CONNECT", "a:443").unwrap();
    assert_eq!((target.form, target.authority), (TargetForm::Authority, Some(&b"a:443"[..])));
    for raw in ["a", "/", "http://a/", "a:", "*", "a:443/"] {
        assert_eq!(parse("CONNECT", raw), Err(Malformed::TargetInvalid), "{raw}");
    }
    assert_eq!(parse("GET", "a:443"), Err(Malformed::TargetInvalid));
}

#[test]
fn everything_else_is_refused() {
    for raw in [
        "", "a", "a/b", "?a", "http:/a", "http:a", "ftp://a/", "://a", "/#", "/a#b", "/a b", "/\u{e9}",
        "/\0", "*a", "/a\t",
    ] {
        assert_eq!(parse("GET", raw), Err(Malformed::TargetInvalid), "{raw:?}");
    }
}

#[test]
fn visible_ascii_that_no_uri_has_passes() {
    for raw in ["/a|b", "/a\"b", "/<a>", "/a\\b", "/{a}", "/a^b`", "/?a|\"<>\\^`{}"] {
        assert!(parse("GET", raw).is_ok(), "{raw:?}");
    }
}

#[test]
fn the_host_header_names_the_requested_host() {
    let found = parse_target("GET / HTTP/1.1\r\nHost: a.b:8080\r\n");
    assert_eq!(found, Ok(Some(("a.b".to_owned(), Some(8080)))));
}

#[test]
fn http_1_1_has_exactly_one_host() {
    assert_eq!(parse_target("GET / HTTP/1.1\r\n"), Err(Malformed::HostMissing));
    assert_eq!(parse_target("GET http://a/ HTTP/1.1\r\n"), Err(Malformed::HostMissing));
    assert_eq!(parse_target("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n"), Err(Malformed::HostRepeated));
}

#[test]
fn http_1_0_may_have_none_but_not_two() {
    assert_eq!(parse_target("GET / HTTP/1.0\r\n"), Ok(None));
    assert_eq!(host("GET http://a/ HTTP/1.0\r\n").as_deref(), Some("a"));
    assert_eq!(parse_target("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n"), Err(Malformed::HostRepeated));
}

#[test]
fn an_invalid_host_is_refused() {
    for value in ["a b", "a/b", "a@b", "a,b c", "a:99999", "http://a", "a\u{e9}"] {
        assert_eq!(
            parse_target(&format!("GET / HTTP/1.1\r\nHost: {value}\r\n")),
            Err(Malformed::AuthorityInvalid),
            "{value}"
        );
    }
}

#[test]
fn an_empty_host_is_for_the_asterisk_form_only() {
    assert_eq!(parse_target("OPTIONS * HTTP/1.1\r\nHost:\r\n"), Ok(None));
    assert_eq!(parse_target("GET / HTTP/1.1\r\nHost:\r\n"), Err(Malformed::AuthorityInvalid));
    assert_eq!(parse_target("GET / HTTP/1.0\r\nHost:\r\n"), Err(Malformed::AuthorityInvalid));
    assert_eq!(parse_target("GET http://a/ HTTP/1.1\r\nHost:\r\n"), Err(Malformed::AuthorityInvalid));
}

#[test]
fn absolute_form_wins_and_must_agree_with_host() {
    assert_eq!(host("GET http://A.b/ HTTP/1.1\r\nHost: a.B\r\n").as_deref(), Some("A.b"));
    assert_eq!(host("GET http://a:80/ HTTP/1.1\r\nHost: a\r\n").as_deref(), Some("a"));
    assert_eq!(host("GET https://a/ HTTP/1.1\r\nHost: a:443\r\n").as_deref(), Some("a"));
    for text in [
        "GET http://a/ HTTP/1.1\r\nHost: b\r\n",
        "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a:443\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n",
    ] {
        assert_eq!(parse_target(text), Err(Malformed::HostDisagrees), "{text:?}");
    }
}

#[test]
fn the_authority_of_a_target_is_checked_before_it_routes() {
    for raw in ["http:///", "http://u@a/", "http://a:x/", "http://[::1/"] {
        let found = parse_target(&format!("GET {raw} HTTP/1.1\r\nHost: a\r\n"));
        assert_eq!(found, Err(Malformed::AuthorityInvalid), "{raw}");
    }
}
