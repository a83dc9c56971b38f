//! Converts settings for which the Gateway API has no fields, such as body limits, error pages, sessions and retries, to Fairway's
//! BackendTrafficPolicies. A policy applies to all requests for a Service, so all Ingresses with that Service must
//! have the same settings.

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
use crate::gateway::object::{self, WrittenObject};
use crate::gateway::remark::{Remark, Remarks};

const BODY_SIZE_ANNOTATIONS: &[&str] = &["proxy-body-size"];
const COMPRESSION_ANNOTATIONS: &[&str] = &["fairway.dev/compression"];
const ERROR_PAGE_ANNOTATIONS: &[&str] = &["custom-http-errors", "default-backend"];
const SESSION_COOKIE_ANNOTATIONS: &[&str] = &[
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
const RETRY_ANNOTATIONS: &[&str] = &["proxy-next-upstream", "proxy-next-upstream-tries"];
const BUFFERING_ANNOTATIONS: &[&str] = &["proxy-request-buffering", "proxy-buffering"];

/// The default of `proxy-body-size` in ingress-nginx.
const DEFAULT_BODY_LIMIT: u64 = 1 << 20;

/// The default number of attempts per request.
pub(crate) const DEFAULT_TRIES: u8 = 3;

/// The settings for each Service, by Ingress.
#[derive(Debug, Default)]
pub(crate) struct TrafficSettings(BTreeMap<ObjectKey, Vec<IngressTraffic>>);

#[derive(Clone, Debug)]
struct IngressTraffic {
    ingress: ObjectKey,
    max_request: Option<u64>,
    compression: Option<Arc<Compression>>,
    buffering: Buffering,
    pages: Option<ErrorPages>,
    cookie: Option<SessionCookie>,
    /// Number of attempts per request, if it is not the default.
    attempts: Option<u8>,
}

impl TrafficSettings {
    /// Adds the settings of a rule of an Ingress to its Services.
    pub(crate) fn add_rule(
        &mut self,
        rule: &Rule,
        ingress: &ObjectKey,
        shares: &Shares,
        pages: Option<ErrorPages>,
    ) {
        let forwarding = rule.phases.forwarding.as_ref();
        let traffic = IngressTraffic {
            ingress: ingress.clone(),
            max_request: rule.policy.max_body,
            compression: rule.phases.answers.compression.clone(),
            buffering: forwarding.map(|forwarding| forwarding.buffering).unwrap_or_default(),
            pages,
            cookie: None,
            attempts: Some(rule.policy.retry.tries).filter(|tries| *tries != DEFAULT_TRIES),
        };
        for (index, service) in shares.backends.iter().enumerate() {
            let cookie = shares.cookies.get(index).cloned().flatten();
            let namespace = service.namespace.as_deref().unwrap_or(&ingress.namespace);
            self.0
                .entry(ObjectKey::new(namespace, &service.name))
                .or_default()
                .push(IngressTraffic { cookie, ..traffic.clone() });
        }
    }

    /// The policies, if the Gateway supports them. Adds remarks on losses.
    pub(crate) fn policies(&self, has_policies: bool, remarks: &mut Remarks) -> Vec<WrittenObject> {
        let policy = |(service, wanted): (&ObjectKey, &Vec<IngressTraffic>)| {
            policy(wanted, AgreedSettings { service, has_policies, remarks: &mut *remarks })
        };
        self.0.iter().filter_map(policy).collect()
    }
}

fn policy(traffic: &[IngressTraffic], mut common: AgreedSettings<'_>) -> Option<WrittenObject> {
    let service = common.service;
    if traffic.iter().any(|it| it.max_request == Some(DEFAULT_BODY_LIMIT)) {
        common.remarks.add_general("request bodies have no limit; the limit of ingress-nginx is 1 MiB");
    }
    let explicit: Vec<_> =
        traffic.iter().filter(|it| it.max_request != Some(DEFAULT_BODY_LIMIT)).cloned().collect();
    let limit = common
        .agreed_value(&explicit, BODY_SIZE_ANNOTATIONS, "request bodies have no limit", |it| it.max_request);
    let compression =
        common.agreed_value(traffic, COMPRESSION_ANNOTATIONS, "responses are not compressed", |it| {
            it.compression.clone()
        });
    let buffering = common
        .agreed_value(traffic, BUFFERING_ANNOTATIONS, "bodies are streamed", |it| it.buffering)
        .unwrap_or_default();
    let pages =
        common.agreed_value(traffic, ERROR_PAGE_ANNOTATIONS, "error responses are not replaced", |it| {
            it.pages.clone()
        });
    let tries =
        common.agreed_value(traffic, RETRY_ANNOTATIONS, "requests are tried three times", |it| it.attempts);
    let cookie =
        common.agreed_value(traffic, SESSION_COOKIE_ANNOTATIONS, "there is no session affinity", |it| {
            it.cookie.clone()
        });
    let request_body = limit.flatten().map(Size::from_bytes);
    let spec = BackendTrafficPolicySpec {
        target_refs: vec![PolicyTargetReference {
            group: String::new(),
            kind: "Service".to_owned(),
            name: service.name.to_string(),
            section_name: None,
        }],
        limits: request_body
            .map(|size| BackendLimits { request_body: Some(size), ..BackendLimits::default() }),
        compression: compression.flatten().map(|it| common.compression(&it, traffic)),
        buffering: (buffering != Buffering::default()).then(|| body_buffering(buffering)),
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
    (!is_empty).then(|| object::write_object::<BackendTrafficPolicy>(service, &spec, object::about_own_crd()))
}

/// The settings that all Ingresses of a Service agree on.
struct AgreedSettings<'a> {
    service: &'a ObjectKey,
    /// Whether the Gateway is one of Fairway, which these policies require.
    has_policies: bool,
    remarks: &'a mut Remarks,
}

impl AgreedSettings<'_> {
    /// The value that all agree on. If they differ, those with a value get a remark that says `instead`.
    fn agreed_value<T: PartialEq + Default>(
        &mut self,
        wanted: &[IngressTraffic],
        about: &'static [&'static str],
        instead: &str,
        value: impl Fn(&IngressTraffic) -> T,
    ) -> Option<T> {
        let first = value(wanted.first()?);
        let differ = wanted.iter().any(|it| value(it) != first);
        if self.has_policies && !differ {
            return Some(first);
        }
        for it in wanted.iter().filter(|it| value(it) != T::default()) {
            let remark = match self.has_policies {
                true => {
                    format!("paths with the Service {} ask for different things, so {instead}", self.service)
                }
                false => format!("only a Gateway of class {OWN_CLASS} has policies for it, so {instead}"),
            };
            self.remarks.add(&it.ingress, Remark::lost(about, remark));
        }
        None
    }

    fn compression(&mut self, compression: &Compression, traffic: &[IngressTraffic]) -> ResponseCompression {
        let coding = |rule: &CodingRule| CompressionCoding {
            type_: coding_name(rule.coding).to_owned(),
            level: Some(rule.level).filter(|level| *level != default_rule(rule.coding).level).map(i32::from),
        };
        let mut codings: Vec<_> = compression.codings.iter().map(coding).collect();
        if codings.len() == CODINGS.len() && codings.iter().all(|coding| coding.level.is_none()) {
            codings.clear();
        }
        let is_usual = |usual: fn(&CodingRule, &CodingRule) -> bool| {
            compression.codings.iter().all(|rule| usual(rule, &default_rule(rule.coding)))
        };
        let usual_length = is_usual(|rule, usual| rule.min_length == usual.min_length);
        let usual_types = is_usual(|rule, usual| rule.types == usual.types);
        let longest = compression.codings.iter().map(|rule| rule.min_length).max().unwrap_or_default();
        let types = compression.codings.first().map(|rule| rule.types.clone()).unwrap_or_default();
        let differ = compression.codings.iter().any(|rule| {
            (!usual_length && rule.min_length != longest) || (!usual_types && rule.types != types)
        });
        if differ {
            for it in traffic {
                let remark =
                    "all codings use the largest minimum length and the content types of the first coding";
                self.remarks.add(&it.ingress, Remark::differs(COMPRESSION_ANNOTATIONS, remark));
            }
        }
        ResponseCompression {
            mode: None,
            codings,
            min_content_length: (!usual_length).then(|| Size::from_bytes(longest)),
            content_types: if usual_types {
                Vec::new()
            } else {
                types.iter().map(ToString::to_string).collect()
            },
        }
    }
}

fn coding_name(coding: ContentCoding) -> &'static str {
    match coding {
        ContentCoding::Brotli => "Brotli",
        ContentCoding::Gzip => "Gzip",
        ContentCoding::Zstd => "Zstd",
    }
}

fn body_buffering(buffering: Buffering) -> BodyBuffering {
    let size = |buffer: fairway_model::BodyBuffer| BodyBufferSize {
        // A policy requires some memory for a body.
        memory: Some(Size::from_bytes(u64::from(buffer.memory.max(1)))),
        disk: Some(Size::from_bytes(buffer.disk)),
    };
    BodyBuffering { requests: buffering.requests.map(size), responses: buffering.responses.map(size) }
}
