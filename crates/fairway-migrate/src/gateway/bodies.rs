//! What Ingresses ask for as to their Services: bodies of requests and responses, error pages, sessions and retries, as
//! BackendTrafficPolicies, Fairway's own, for which the Gateway API has no fields. A policy is for all that a Service gets, so Ingresses
//! with one Service must ask for the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Buffering, CodingRule, Compression, ContentCoding, Rule};
use fairway_objects::compression::{CODINGS, default_rule};
use fairway_objects::gateway_api::PolicyTargetReference;
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::{
    BackendLimits, BackendTrafficPolicy, BackendTrafficPolicySpec, BodyBufferSize, BodyBuffering,
    CompressionCoding, ErrorPages, ResponseCompression, RetryPolicy, SessionCookie, Size,
};

use crate::gateway::backends::Shares;
use crate::gateway::input::OWN_CLASS;
use crate::gateway::object::{self, Written};
use crate::gateway::remark::{Remark, Remarks};

const BODY: &[&str] = &["proxy-body-size"];
const COMPRESSION: &[&str] = &["fairway.dev/compression"];
const PAGES: &[&str] = &["custom-http-errors", "default-backend"];
const SESSIONS: &[&str] = &[
    "affinity",
    "affinity-mode",
    "affinity-canary-behavior",
    "session-cookie-name",
    "session-cookie-path",
    "session-cookie-expires",
    "session-cookie-max-age",
    "session-cookie-change-on-failure",
    "session-cookie-conditional-samesite-none",
    "session-cookie-domain",
    "session-cookie-samesite",
    "session-cookie-secure",
];
const RETRIES: &[&str] = &["proxy-next-upstream", "proxy-next-upstream-tries"];
const BUFFERING: &[&str] = &["proxy-request-buffering", "proxy-buffering"];

/// The largest body of a request that ingress-nginx takes unless it is told otherwise.
const USUAL_BODY: u64 = 1 << 20;

/// How often a request is tried in all, unless it is said otherwise.
pub(crate) const USUAL_TRIES: u8 = 3;

/// What is asked for the bodies of each Service, and by which Ingress.
#[derive(Debug, Default)]
pub(crate) struct Bodies(BTreeMap<ObjectKey, Vec<Asked>>);

#[derive(Clone, Debug)]
struct Asked {
    ingress: ObjectKey,
    max_request: Option<u64>,
    compression: Option<Arc<Compression>>,
    buffering: Buffering,
    pages: Option<ErrorPages>,
    cookie: Option<SessionCookie>,
    /// How often a request is tried in all, where that is not usual.
    tries: Option<u8>,
}

impl Bodies {
    /// A rule of an Ingress sends requests to these Services.
    pub(crate) fn ask(
        &mut self,
        rule: &Rule,
        ingress: &ObjectKey,
        shares: &Shares,
        pages: Option<ErrorPages>,
    ) {
        let forwarding = rule.phases.forwarding.as_ref();
        let asked = Asked {
            ingress: ingress.clone(),
            max_request: rule.policy.max_body,
            compression: rule.phases.answers.compression.clone(),
            buffering: forwarding.map(|forwarding| forwarding.buffering).unwrap_or_default(),
            pages,
            cookie: None,
            tries: Some(rule.policy.retry.tries).filter(|tries| *tries != USUAL_TRIES),
        };
        for (index, service) in shares.of.iter().enumerate() {
            let cookie = shares.cookies.get(index).cloned().flatten();
            let namespace = service.namespace.as_deref().unwrap_or(&ingress.namespace);
            self.0
                .entry(ObjectKey::new(namespace, &service.name))
                .or_default()
                .push(Asked { cookie, ..asked.clone() });
        }
    }

    /// The policies, for a Gateway that has such, and what is lost.
    pub(crate) fn policies(&self, has_policies: bool, remarks: &mut Remarks) -> Vec<Written> {
        let policy = |(service, asked): (&ObjectKey, &Vec<Asked>)| {
            policy(asked, Common { service, has_policies, remarks: &mut *remarks })
        };
        self.0.iter().filter_map(policy).collect()
    }
}

fn policy(asked: &[Asked], mut common: Common<'_>) -> Option<Written> {
    let service = common.service;
    if asked.iter().any(|it| it.max_request == Some(USUAL_BODY)) {
        common.remarks.add_general("bodies of requests have no limit; that of ingress-nginx is 1 MiB");
    }
    let said: Vec<_> = asked.iter().filter(|it| it.max_request != Some(USUAL_BODY)).cloned().collect();
    let limit = common.of(&said, BODY, "bodies of requests have no limit", |it| it.max_request);
    let compression =
        common.of(asked, COMPRESSION, "responses are not compressed", |it| it.compression.clone());
    let buffering = common.of(asked, BUFFERING, "bodies are streamed", |it| it.buffering).unwrap_or_default();
    let pages = common.of(asked, PAGES, "error responses stay as they are", |it| it.pages.clone());
    let tries = common.of(asked, RETRIES, "requests are tried three times", |it| it.tries);
    let cookie = common.of(asked, SESSIONS, "clients do not stay with an endpoint", |it| it.cookie.clone());
    let request_body = limit.flatten().map(Size::of_bytes);
    let spec = BackendTrafficPolicySpec {
        target_refs: vec![PolicyTargetReference {
            group: String::new(),
            kind: "Service".to_owned(),
            name: service.name.to_string(),
            section_name: None,
        }],
        limits: request_body
            .map(|size| BackendLimits { request_body: Some(size), ..BackendLimits::default() }),
        compression: compression.flatten().map(|it| common.compression(&it, asked)),
        buffering: (buffering != Buffering::default()).then(|| held(buffering)),
        error_pages: pages.flatten(),
        session_cookie: cookie.flatten(),
        retry: tries.flatten().map(|tries| RetryPolicy {
            attempts: Some(i32::from(tries.saturating_sub(1))),
            ..RetryPolicy::default()
        }),
        ..BackendTrafficPolicySpec::default()
    };
    let empty = BackendTrafficPolicySpec {
        target_refs: spec.target_refs.clone(),
        ..BackendTrafficPolicySpec::default()
    };
    let is_empty = spec == empty;
    (!is_empty).then(|| object::written::<BackendTrafficPolicy>(service, &spec, object::about_own_crd()))
}

/// What the Ingresses of a Service have in common.
struct Common<'a> {
    service: &'a ObjectKey,
    /// Whether the Gateway is one of Fairway, which alone has such policies.
    has_policies: bool,
    remarks: &'a mut Remarks,
}

impl Common<'_> {
    /// The value of all; where they differ, those that ask for something hear `instead`.
    fn of<T: PartialEq + Default>(
        &mut self,
        asked: &[Asked],
        about: &'static [&'static str],
        instead: &str,
        value: impl Fn(&Asked) -> T,
    ) -> Option<T> {
        let first = value(asked.first()?);
        let differ = asked.iter().any(|it| value(it) != first);
        if self.has_policies && !differ {
            return Some(first);
        }
        for it in asked.iter().filter(|it| value(it) != T::default()) {
            let what = match self.has_policies {
                true => {
                    format!("paths with the Service {} ask for different things, so {instead}", self.service)
                }
                false => format!("only a Gateway of class {OWN_CLASS} has policies for it, so {instead}"),
            };
            self.remarks.add(&it.ingress, Remark::lost(about, what));
        }
        None
    }

    fn compression(&mut self, of: &Compression, asked: &[Asked]) -> ResponseCompression {
        let coding = |rule: &CodingRule| CompressionCoding {
            type_: name(rule.coding).to_owned(),
            level: Some(rule.level).filter(|level| *level != default_rule(rule.coding).level).map(i32::from),
        };
        let mut codings: Vec<_> = of.codings.iter().map(coding).collect();
        if codings.len() == CODINGS.len() && codings.iter().all(|coding| coding.level.is_none()) {
            codings.clear();
        }
        let is_usual = |usual: fn(&CodingRule, &CodingRule) -> bool| {
            of.codings.iter().all(|rule| usual(rule, &default_rule(rule.coding)))
        };
        let usual_length = is_usual(|rule, usual| rule.min_length == usual.min_length);
        let usual_types = is_usual(|rule, usual| rule.types == usual.types);
        let longest = of.codings.iter().map(|rule| rule.min_length).max().unwrap_or_default();
        let types = of.codings.first().map(|rule| rule.types.clone()).unwrap_or_default();
        let differ = of.codings.iter().any(|rule| {
            (!usual_length && rule.min_length != longest) || (!usual_types && rule.types != types)
        });
        if differ {
            for it in asked {
                let what = "all codings have the largest least length, and the types of the first one";
                self.remarks.add(&it.ingress, Remark::differs(COMPRESSION, what));
            }
        }
        ResponseCompression {
            mode: None,
            codings,
            min_content_length: (!usual_length).then(|| Size::of_bytes(longest)),
            content_types: if usual_types {
                Vec::new()
            } else {
                types.iter().map(ToString::to_string).collect()
            },
        }
    }
}

fn name(coding: ContentCoding) -> &'static str {
    match coding {
        ContentCoding::Brotli => "Brotli",
        ContentCoding::Gzip => "Gzip",
        ContentCoding::Zstd => "Zstd",
    }
}

fn held(of: Buffering) -> BodyBuffering {
    let size = |of: fairway_model::BodyBuffer| BodyBufferSize {
        // A policy has no body without memory.
        memory: Some(Size::of_bytes(u64::from(of.memory.max(1)))),
        disk: Some(Size::of_bytes(of.disk)),
    };
    BodyBuffering { requests: of.requests.map(size), responses: of.responses.map(size) }
}
