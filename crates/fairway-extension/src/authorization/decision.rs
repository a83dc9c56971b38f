//! Decodes the decision of a service, and checks that it can be applied. Does not apply it.

use prost::Message;

use crate::change::{self, ChangeLimits, HeaderAction, HeaderChange, InvalidChange, is_never_changed};
use crate::generated::check_response::HttpResponse;
use crate::generated::{CheckResponse, DeniedHttpResponse, HeaderValueOption, OkHttpResponse};

/// The decision of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request may continue.
    Allow(Allowed),
    /// The client gets this response instead.
    Deny(Denied),
}

/// How a request continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Changes to the request headers, applied after `remove`.
    pub headers: Vec<HeaderChange>,
    /// Request headers to remove, in lower case.
    pub remove: Vec<Box<str>>,
    /// Changes to the response headers.
    pub response_headers: Vec<HeaderChange>,
    /// Query parameters to set, not encoded.
    pub set_query: Vec<(Box<str>, Box<str>)>,
    /// Query parameters to remove.
    pub remove_query: Vec<Box<str>>,
    /// The number of changes that were ignored because no service may make them.
    pub refused: u32,
}

/// The response to a denied request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// 200 to 599.
    pub status: u16,
    /// Changes to the headers of Fairway's response.
    pub headers: Vec<HeaderChange>,
    /// The body.
    pub body: Vec<u8>,
    /// The number of changes that were ignored because no service may make them.
    pub refused: u32,
}

/// An invalid response: the request is denied unless `failure_mode_allow` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDecision {
    /// It cannot be decoded.
    #[error("the response is not a CheckResponse")]
    Undecodable,
    /// It has neither a status nor an HTTP response.
    #[error("the response neither allows nor denies the request")]
    Empty,
    /// Its status allows the request but its HTTP response denies it, or vice versa.
    #[error("the status and the HTTP response contradict each other")]
    Contradictory,
    /// An invalid HTTP status.
    #[error("the response denies with HTTP status {0}, which is not between 200 and 599")]
    Status(i32),
    /// An invalid header, or too many.
    #[error("the response has {0}")]
    Header(#[from] InvalidChange),
}

/// Decodes a `CheckResponse` without its message prefix.
///
/// # Errors
/// It is not a valid decision.
pub fn read_decision(message: &[u8]) -> Result<Decision, InvalidDecision> {
    let response = CheckResponse::decode(message).map_err(|_| InvalidDecision::Undecodable)?;
    let is_ok = response.status.as_ref().map(|status| status.code == 0);
    match (is_ok, response.http_response) {
        (Some(true), None) => Ok(Decision::Allow(Allowed::default())),
        (Some(true) | None, Some(HttpResponse::OkResponse(ok))) => Ok(Decision::Allow(read_allowed(ok)?)),
        (Some(false), None) => Ok(Decision::Deny(read_denied(DeniedHttpResponse::default())?)),
        (Some(false), Some(HttpResponse::DeniedResponse(no))) => Ok(Decision::Deny(read_denied(no)?)),
        // Envoy treats it as allowed, but a service that fails halfway sends the same.
        (None, None) => Err(InvalidDecision::Empty),
        (Some(false), Some(HttpResponse::OkResponse(_)))
        | (Some(true) | None, Some(HttpResponse::DeniedResponse(_))) => Err(InvalidDecision::Contradictory),
    }
}

fn read_allowed(ok: OkHttpResponse) -> Result<Allowed, InvalidDecision> {
    let mut reader = ChangeReader { allowance: ChangeLimits::new(), refused: 0 };
    // "append defaults to false": without an action, request headers are replaced; Envoy appends response headers.
    let headers = reader.read_changes(ok.headers, |_, _| HeaderAction::Overwrite)?;
    let response_headers = reader.read_changes(ok.response_headers_to_add, |_, _| HeaderAction::Append)?;
    let mut remove = Vec::new();
    for name in ok.headers_to_remove {
        let name = change::read_name(&name)?;
        reader.allowance.take(name.len())?;
        if reader.may_change(&name) {
            remove.push(name);
        }
    }
    let mut set_query = Vec::new();
    for parameter in ok.query_parameters_to_set {
        reader.allowance.take(parameter.key.len() + parameter.value.len())?;
        set_query.push((parameter.key.into(), parameter.value.into()));
    }
    let mut remove_query = Vec::new();
    for name in ok.query_parameters_to_remove {
        reader.allowance.take(name.len())?;
        remove_query.push(name.into());
    }
    Ok(Allowed { headers, remove, response_headers, set_query, remove_query, refused: reader.refused })
}

fn read_denied(no: DeniedHttpResponse) -> Result<Denied, InvalidDecision> {
    let status = match no.status.map_or(0, |status| status.code) {
        0 => 403,
        code @ 200..=599 => code as u16,
        code => return Err(InvalidDecision::Status(code)),
    };
    let mut reader = ChangeReader { allowance: ChangeLimits::new(), refused: 0 };
    // Replaces headers of Fairway's own response, and keeps a second `Set-Cookie`.
    let headers = reader.read_changes(no.headers, |changes, name| {
        let is_repeated = changes.iter().any(|change| &*change.name == name);
        if is_repeated { HeaderAction::Append } else { HeaderAction::Overwrite }
    })?;
    Ok(Denied { status, headers, body: no.body.into_bytes(), refused: reader.refused })
}

struct ChangeReader {
    allowance: ChangeLimits,
    refused: u32,
}

impl ChangeReader {
    /// `unsaid` selects the action where the service gives none, from the previous changes and the name.
    fn read_changes(
        &mut self,
        options: Vec<HeaderValueOption>,
        unsaid: impl Fn(&[HeaderChange], &str) -> HeaderAction,
    ) -> Result<Vec<HeaderChange>, InvalidChange> {
        let mut changes = Vec::with_capacity(options.len().min(change::MAX_CHANGES));
        for option in options {
            let name = option.header.as_ref().map(|header| header.key.to_ascii_lowercase());
            let action = unsaid(&changes, name.as_deref().unwrap_or_default());
            let Some(change) = change::read_change(option, action)? else { continue };
            self.allowance.take(change.name.len() + change.value.len())?;
            if self.may_change(&change.name) {
                changes.push(change);
            }
        }
        Ok(changes)
    }

    fn may_change(&mut self, name: &str) -> bool {
        let is_refused = is_never_changed(name);
        self.refused += u32::from(is_refused);
        !is_refused
    }
}

#[cfg(test)]
mod tests {
    use fairway_http::Head;

    use super::*;
    use crate::change::apply;
    use crate::generated::{BoolValue, HeaderValue, HttpStatus, QueryParameter, Status};

    fn option(name: &str, value: &str) -> HeaderValueOption {
        let header = HeaderValue { key: name.to_owned(), value: value.to_owned(), raw_value: Vec::new() };
        HeaderValueOption { header: Some(header), ..HeaderValueOption::default() }
    }

    fn decide(code: Option<i32>, http_response: Option<HttpResponse>) -> Result<Decision, InvalidDecision> {
        let status = code.map(|code| Status { code, message: String::new() });
        read_decision(&CheckResponse { status, http_response }.encode_to_vec())
    }

    fn ok_response(headers: Vec<HeaderValueOption>) -> Option<HttpResponse> {
        Some(HttpResponse::OkResponse(OkHttpResponse { headers, ..OkHttpResponse::default() }))
    }

    fn denied_response(status: i32, headers: Vec<HeaderValueOption>) -> Option<HttpResponse> {
        let status = Some(HttpStatus { code: status });
        let body = "no".to_owned();
        Some(HttpResponse::DeniedResponse(DeniedHttpResponse { status, headers, body }))
    }

    fn allowed(decision: Result<Decision, InvalidDecision>) -> Allowed {
        match decision {
            Ok(Decision::Allow(allowed)) => allowed,
            other => panic!("{other:?}"),
        }
    }

    fn denied(decision: Result<Decision, InvalidDecision>) -> Denied {
        match decision {
            Ok(Decision::Deny(denied)) => denied,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_status_decides() {
        assert_eq!(allowed(decide(Some(0), None)), Allowed::default());
        assert_eq!(allowed(decide(None, ok_response(vec![]))), Allowed::default());
        assert_eq!(denied(decide(Some(7), None)).status, 403);
        assert_eq!(denied(decide(Some(-1), denied_response(0, vec![]))).status, 403);
        let denied = denied(decide(Some(16), denied_response(401, vec![option("Location", "/login")])));
        assert_eq!((denied.status, &denied.body[..], denied.headers.len()), (401, &b"no"[..], 1));
    }

    #[test]
    fn a_contradictory_response_is_no_decision() {
        assert_eq!(decide(Some(0), denied_response(403, vec![])), Err(InvalidDecision::Contradictory));
        assert_eq!(decide(None, denied_response(403, vec![])), Err(InvalidDecision::Contradictory));
        assert_eq!(decide(Some(7), ok_response(vec![])), Err(InvalidDecision::Contradictory));
        assert_eq!(decide(None, None), Err(InvalidDecision::Empty));
        assert_eq!(read_decision(b""), Err(InvalidDecision::Empty));
        assert_eq!(read_decision(b"\xff\xff"), Err(InvalidDecision::Undecodable));
        for status in [1, 101, 199, 600, -1] {
            assert_eq!(
                decide(Some(7), denied_response(status, vec![])),
                Err(InvalidDecision::Status(status))
            );
        }
    }

    #[test]
    fn invalid_header_names_and_values_are_no_decision() {
        for (name, value) in
            [("", "v"), ("a b", "v"), ("a:", "v"), ("a", "v\r\nb: c"), ("a", "\0"), ("a", "\x7f")]
        {
            let invalid = Err(InvalidDecision::Header(InvalidChange));
            assert_eq!(
                decide(Some(0), ok_response(vec![option(name, value)])),
                invalid,
                "{name:?}: {value:?}"
            );
            assert_eq!(
                decide(Some(7), denied_response(403, vec![option(name, value)])),
                invalid,
                "{name:?}: {value:?}"
            );
        }
        let long = "v".repeat(change::MAX_NAME_OR_VALUE_BYTES + 1);
        assert!(decide(Some(0), ok_response(vec![option("a", &long)])).is_err());
        assert!(decide(Some(0), ok_response(vec![option("a", &long[2..]); 5])).is_err());
        assert!(decide(Some(0), ok_response(vec![option("a", "v"); 257])).is_err());
        assert_eq!(allowed(decide(Some(0), ok_response(vec![option("a", "v"); 256]))).headers.len(), 256);
    }

    #[test]
    fn changes_that_no_service_may_make_are_ignored_and_counted() {
        let names = [
            "Host",
            ":authority",
            ":path",
            "Connection",
            "content-length",
            "Transfer_Encoding",
            "te",
            "Upgrade",
            "Trailer",
            "proxy-connection",
        ];
        let headers: Vec<_> =
            names.iter().map(|name| option(name, "v")).chain([option("X-A", "v")]).collect();
        let decision = allowed(decide(Some(0), ok_response(headers.clone())));
        assert_eq!((decision.headers.len(), decision.refused), (1, 10));
        let decision = denied(decide(Some(7), denied_response(403, headers)));
        assert_eq!((decision.headers.len(), decision.refused), (1, 10));
        let ok = OkHttpResponse {
            headers_to_remove: vec!["HOST".to_owned(), ":path".to_owned(), "Authorization".to_owned()],
            query_parameters_to_set: vec![QueryParameter { key: "a".to_owned(), value: "b c".to_owned() }],
            query_parameters_to_remove: vec!["token".to_owned()],
            response_headers_to_add: vec![option("Set-Cookie", "a"), option("set-cookie", "b")],
            ..OkHttpResponse::default()
        };
        let decision = allowed(decide(Some(0), Some(HttpResponse::OkResponse(ok))));
        assert_eq!((&*decision.remove, decision.refused), (&["authorization".into()][..], 2));
        assert_eq!(decision.set_query, [("a".into(), "b c".into())]);
        assert_eq!(decision.remove_query, ["token".into()]);
        assert!(decision.response_headers.iter().all(|change| change.action == HeaderAction::Append));
    }

    #[test]
    fn a_denial_replaces_headers_and_keeps_repeated_ones() {
        let headers = ["Content-Type", "Set-Cookie", "set-cookie"].map(|name| option(name, name)).to_vec();
        let denied = denied(decide(Some(7), denied_response(403, headers)));
        let mut head = Head::new();
        head.start_response(denied.status);
        head.append(b"Content-Type", b"text/html");
        apply(&denied.headers, &mut head);
        let fields: Vec<_> = head.fields().map(|field| field.value.to_vec()).collect();
        assert_eq!(fields, [&b"Content-Type"[..], b"Set-Cookie", b"set-cookie"]);
    }

    #[test]
    fn actions_determine_how_existing_headers_change() {
        let with = |append: Option<bool>, append_action: i32| {
            let append = append.map(|value| BoolValue { value });
            ["x-there", "x-new"].map(|name| HeaderValueOption { append, append_action, ..option(name, "2") })
        };
        for (append, action, expected) in [
            (None, 0, "2|2"),
            (Some(true), 0, "1,2|2"),
            (Some(false), 0, "2|2"),
            (None, 1, "1|2"),
            (None, 2, "2|2"),
            (None, 3, "2|"),
            (Some(true), 2, "2|2"),
        ] {
            let decision = allowed(decide(Some(0), ok_response(with(append, action).to_vec())));
            let mut head = Head::new();
            head.start_request(b"GET", b"/");
            head.append(b"X-There", b"1");
            apply(&decision.headers, &mut head);
            let values = |name: &[u8]| {
                let values: Vec<_> = head.all_named(name).map(String::from_utf8_lossy).collect();
                values.join(",")
            };
            let found = format!("{}|{}", values(b"x-there"), values(b"x-new"));
            assert_eq!(found, expected, "{append:?} {action}");
        }
        assert!(decide(Some(0), ok_response(with(None, 9).to_vec())).is_err());
    }
}
