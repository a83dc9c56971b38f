//! Compiling the phases of a rule into steps.

use fairway_model::{AuthService, ExternalAuth, MirrorTarget, Template};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn field(name: &str) -> HeaderField {
    HeaderField { name: name.into(), value: "v".into() }
}

fn names(fields: &ReadyFields) -> Vec<&str> {
    fields.iter().map(|field| std::str::from_utf8(field.name).unwrap()).collect()
}

#[test]
fn hop_by_hop_headers_are_not_edited_and_there_is_one_host() {
    let edit = HeaderEdit {
        remove: ["x-a", "host", "Connection", "content-length"].map(Into::into).into(),
        set: vec![field("X-B"), field("Transfer-Encoding"), field("Host")],
        add: vec![field("X-C"), field("host"), field("Upgrade")],
    };
    let edits = FieldEdits::from_edit(&edit, |_| true);
    assert_eq!(edits.remove.iter().map(|name| &**name).collect::<Vec<_>>(), ["x-a"]);
    assert_eq!((names(&edits.set), names(&edits.add)), (vec!["X-B", "host"], vec!["X-C"]));
}

/// From few names, so that they collide.
fn some_fields() -> impl Strategy<Value = Vec<HeaderField>> {
    let names = select(vec!["X-A", "x-a", "X-B", "X-Longer", "Date", "date", "Server"]);
    let field = |(name, value): (&str, String)| HeaderField { name: name.into(), value: value.into() };
    vec((names, "[a-z]").prop_map(field), 0..4)
}

proptest! {
    #[test]
    fn edits_come_out_as_if_each_were_made_by_itself(
        had in some_fields(),
        remove in vec(select(vec!["x-a", "x-b", "date", "x-none"]), 0..3),
        set in some_fields(),
        add in some_fields(),
    ) {
        let mut edited = Head::new();
        edited.start_response(200);
        had.iter().map(name_and_value).for_each(|(name, value)| edited.append(name, value));
        let mut expected = edited.clone();
        remove.iter().for_each(|name| expected.remove(name.as_bytes()));
        set.iter().map(name_and_value).for_each(|(name, value)| expected.set(name, value));
        add.iter().map(name_and_value).for_each(|(name, value)| expected.append(name, value));
        let remove: Vec<Arc<str>> = remove.into_iter().map(Arc::from).collect();
        FieldEdits::from_edit(&HeaderEdit { remove, set, add }, |_| true).apply(&mut edited);
        prop_assert_eq!(edited.fields().collect::<Vec<_>>(), expected.fields().collect::<Vec<_>>());
        for known in [Known::Date, Known::Server] {
            prop_assert_eq!(edited.first(known), expected.first(known));
        }
        let lines = |head: &Head| {
            let mut lines = Vec::new();
            head.for_each_run(|run| lines.extend_from_slice(run));
            lines
        };
        prop_assert_eq!(lines(&edited), lines(&expected));
    }
}

#[test]
fn headers_written_by_fairway_are_edited_last() {
    let set = |name: &str| HeaderEdit { set: vec![field(name)], ..HeaderEdit::default() };
    let both = HeaderEdit { add: vec![field("X-A")], ..set("X-Forwarded-Proto") };
    let request = [both, set("x-real-ip"), set("X-B")].map(RequestEdit::Headers).into();
    let phases = Phases { request, ..Phases::default() };
    let steps = Steps::<()>::compiled(&phases, PathForm::Decoded, &mut |_| ()).unwrap();
    let ours: Vec<_> = steps.forwarding.edits.iter().flat_map(|edits| names(&edits.set)).collect();
    assert_eq!(ours, ["X-Forwarded-Proto", "x-real-ip"]);
    let [RequestStep::Edit(first), RequestStep::Edit(second)] = &*steps.request else { panic!("two steps") };
    assert_eq!((names(&first.add), names(&second.set)), (vec!["X-A"], vec!["X-B"]));
    assert!(first.set.is_empty());
}

#[test]
fn cookies_of_auth_services_precede_edits_of_all_responses() {
    let edit = || HeaderEdit { set: vec![field("X-A")], ..HeaderEdit::default() };
    let auth = ExternalAuth {
        service: AuthService::OwnHost { scheme: None },
        method: None,
        target: Template::text("/auth"),
        copied: Vec::new(),
        fields: Vec::new(),
        redirect: None,
        sign_in: None,
        cookies: AuthCookies::Always,
        timeouts: Timeouts::default(),
        kept: None,
        filter: None,
    };
    let phases = Phases {
        guards: vec![Guard::ExternalAuth(Box::new(auth))],
        answers: ResponseHandling {
            edits: vec![
                ResponseEdit::Fields([].into()),
                ResponseEdit::Headers(edit()),
                ResponseEdit::StrictTransportSecurity("max-age=1".into()),
            ],
            ..ResponseHandling::default()
        },
        ..Phases::default()
    };
    let steps = Steps::<()>::compiled(&phases, PathForm::Decoded, &mut |_| ()).unwrap();
    let [
        ResponseStep::Fields(_),
        ResponseStep::Cookies(AuthCookies::Always),
        ResponseStep::Edit(_),
        ResponseStep::StrictTransportSecurity(_),
    ] = &*steps.responses.edits
    else {
        panic!("{:?}", steps.responses.edits)
    };
    assert!(steps.forwarding.drops_trailers);
}

#[test]
fn a_share_applies_its_filters_after_the_choice_of_a_backend() {
    let edit = |name: &str| HeaderEdit { set: vec![field(name)], ..HeaderEdit::default() };
    let compression = || Arc::new(Compression { codings: Vec::new() });
    let rule = Phases {
        guards: vec![Guard::OverTls],
        request: vec![RequestEdit::Headers(edit("X-Rule"))],
        forwarding: Forwarding {
            path: Some(PathRewrite::Full("/rule".into())),
            retry_statuses: vec![500],
            fallbacks: vec![Fallback { backend: "b".into(), fields: Vec::new() }],
            ..Forwarding::default()
        }
        .if_not_empty(),
        answers: ResponseHandling {
            edits: vec![ResponseEdit::Headers(edit("X-Rule"))],
            compression: Some(compression()),
            ..ResponseHandling::default()
        },
        unlogged: true,
        ..Phases::default()
    };
    let filters = RouteFilters {
        reply: vec![edit("X-Own")],
        path: Some(PathRewrite::Full("/own".into())),
        ..RouteFilters::default()
    };
    let expected = Phases {
        forwarding: Forwarding {
            path: Some(PathRewrite::Full("/own".into())),
            retry_statuses: vec![500],
            ..Forwarding::default()
        }
        .if_not_empty(),
        answers: ResponseHandling {
            edits: ["X-Own", "X-Rule"].map(edit).map(ResponseEdit::Headers).into(),
            compression: Some(compression()),
            ..ResponseHandling::default()
        },
        unlogged: true,
        ..Phases::default()
    };
    assert_eq!(of_share(Some(&filters), &rule), expected);
}

#[test]
fn rules_that_ask_something_of_the_client_or_show_its_requests_to_others_take_no_early_data() {
    let takes = |phases: Phases| {
        Steps::<()>::compiled(&phases, PathForm::Decoded, &mut |_| ()).unwrap().take_early_data()
    };
    let guarded = |guard: Guard| takes(Phases { guards: vec![Guard::OverTls, guard], ..Phases::default() });
    let to = || RedirectTarget::Path("/".into());
    assert!(takes(Phases::default()));
    for harmless in [Guard::NeedsEndpoint, Guard::Redirect(Redirect { status: 302, target: to() })] {
        assert!(guarded(harmless.clone()), "{harmless:?}");
    }
    let limit = ConcurrencyLimit { policy: "p".into(), max: 1, status: 503, exempt: Vec::new() };
    for guard in [
        Guard::Access(AccessList { deny: Vec::new(), allow: Vec::new() }),
        Guard::ConcurrencyLimit(limit),
        Guard::Deny(Deny { status: 403, when: vec![Match::default()] }),
    ] {
        assert!(!guarded(guard.clone()), "{guard:?}");
    }
    let pages = ErrorPages { statuses: vec![404], backend: None, fields: Vec::new() };
    let responses = ResponseHandling { pages: Some(Box::new(pages)), ..ResponseHandling::default() };
    assert!(!takes(Phases { answers: responses, ..Phases::default() }));
    let mirror = Mirror {
        backend: "b".into(),
        numerator: 1,
        denominator: 1,
        max_body: 0,
        target: MirrorTarget::Forwarded,
        host: None,
    };
    let forwarding = Forwarding { mirrors: vec![mirror], ..Forwarding::default() }.if_not_empty();
    assert!(!takes(Phases { forwarding, ..Phases::default() }));
}
