//! Converts the guards of a rule to the spec of Fairway's SecurityPolicy, because the Gateway API has no fields for them. A guard
//! that the policy cannot express closes the rule.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_model::{
    AuthCookies, AuthService, Deny, ExternalAuth, Guard, LimitKey, LimitScope, RateLimit, Timeouts,
};
use fairway_objects::annotations::parse_policy_field;
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::{self, SecretReference, SecurityPolicySpec, ServiceReference, SourceRanges};
use k8s_openapi::api::networking::v1::Ingress;
use serde::de::DeserializeOwned;

use crate::gateway::backends::{Backends, Destination};
use crate::gateway::input::Input;
use crate::gateway::remark::Remark;

const ADDRESS_ANNOTATIONS: &[&str] =
    &["whitelist-source-range", "allowlist-source-range", "denylist-source-range"];
const PASSWORD_ANNOTATIONS: &[&str] = &["auth-type", "auth-secret", "auth-secret-type", "auth-realm"];
const AUTH_SERVICE_ANNOTATIONS: &[&str] = &[
    "auth-url",
    "auth-method",
    "auth-response-headers",
    "auth-signin",
    "auth-signin-redirect-param",
    "auth-snippet",
];
const RATE_ANNOTATIONS: &[&str] =
    &["limit-rps", "limit-rpm", "limit-burst-multiplier", "limit-allowlist", "limit-whitelist"];
/// Maximum number of rate limits of a SecurityPolicy.
const MAX_RATE_LIMITS: usize = 4;
const CONNECTION_ANNOTATIONS: &[&str] = &["limit-connections", "limit-allowlist", "limit-whitelist"];

/// The protection that a guard provides; `None` if it provides none.
pub(crate) fn protection_name(guard: &Guard) -> Option<&'static str> {
    Some(match guard {
        Guard::Access(_) => "the list of allowed client addresses",
        Guard::ClientCertificate(_) => "client certificates",
        Guard::OverTls => "the refusal of plain requests",
        // In Gateway API paths a line break stays escaped, and `.` matches it.
        Guard::Deny(deny) if *deny == Deny::line_breaks() => return None,
        Guard::Deny(_) => "the requests that fairway.dev/deny refuses",
        Guard::Respond(_) => "the responses of a snippet",
        Guard::ExternalAuth(_) => "the authentication service",
        Guard::GrpcAuth(_) => "the authorization service",
        Guard::BasicAuth(_) => "basic authentication",
        Guard::Jwt(_) => "the token of fairway.dev/jwt",
        Guard::Oidc(_) => "the login of fairway.dev/oidc",
        Guard::ApiKey(_) => "the key of fairway.dev/api-key",
        Guard::Authorize(_) => "the rules of fairway.dev/authorization",
        Guard::Any(_) => "the guards of satisfy: any",
        Guard::HttpsRedirect(_)
        | Guard::Redirect(_)
        | Guard::NeedsEndpoint
        | Guard::Preflight(_)
        | Guard::RateLimit(_)
        | Guard::ConcurrencyLimit(_) => return None,
    })
}

/// Whether a guard limits the requests of clients.
pub(crate) fn is_limit(guard: &Guard) -> bool {
    matches!(guard, Guard::RateLimit(_) | Guard::ConcurrencyLimit(_))
}

/// The remark on the loss of a limit.
pub(crate) fn without_limit(guard: &Guard) -> Remark {
    match guard {
        Guard::ConcurrencyLimit(_) => Remark::lost(
            CONNECTION_ANNOTATIONS,
            "the number of concurrent requests per client is not limited",
        ),
        _ => Remark::lost(RATE_ANNOTATIONS, "the request rate of clients is not limited"),
    }
}

/// The guards of a rule, converted to a SecurityPolicy.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// The policy without its targets; `None` if no guard needs one.
    pub(crate) spec: Option<SecurityPolicySpec>,
    /// Guards that no policy can express.
    pub(crate) missing: Vec<&'static str>,
    /// Services in other namespaces that the policy refers to.
    pub(crate) foreign: Vec<ObjectKey>,
    pub(crate) remarks: Vec<Remark>,
}

/// The annotations of all Ingresses: names of objects and their values are read from them instead of from guards.
pub(crate) struct Annotated<'i> {
    ingresses: BTreeMap<ObjectKey, &'i Ingress>,
    prefix: &'i str,
}

impl<'i> Annotated<'i> {
    pub(crate) fn new(input: &Input<'i>) -> Self {
        let keyed =
            input.ingresses.iter().map(|(ingress, _)| (ObjectKey::from_metadata(&ingress.metadata), ingress));
        Self { ingresses: keyed.collect(), prefix: input.prefix }
    }

    fn value(&self, ingress: &ObjectKey, prefix: &str, name: &str) -> Option<&'i str> {
        let annotations = self.ingresses.get(ingress)?.metadata.annotations.as_ref()?;
        annotations.get(&format!("{prefix}/{name}")).map(|value| value.trim())
    }

    /// An annotation of Fairway, which has the fields of a policy.
    fn field<T: DeserializeOwned>(&self, ingress: &ObjectKey, name: &str) -> Option<T> {
        parse_policy_field(self.value(ingress, "fairway.dev", name)?).ok()
    }

    /// Converts the guards of a rule.
    pub(crate) fn protection(
        &self,
        ingress: &ObjectKey,
        guards: &[&Guard],
        backends: &mut Backends<'_>,
    ) -> Protection {
        let mut protection = Protection::default();
        let mut spec = SecurityPolicySpec::default();
        for guard in guards {
            if self.add_guard(guard, ingress, backends, &mut spec, &mut protection) {
                continue;
            }
            protection.missing.extend(protection_name(guard));
            protection.remarks.extend(Some(guard).filter(|it| is_limit(it)).map(|it| without_limit(it)));
        }
        protection.spec = Some(spec).filter(|spec| *spec != SecurityPolicySpec::default());
        protection
    }

    /// Adds a guard to the spec; `false` if no field can express it.
    fn add_guard(
        &self,
        guard: &Guard,
        ingress: &ObjectKey,
        backends: &mut Backends<'_>,
        spec: &mut SecurityPolicySpec,
        protection: &mut Protection,
    ) -> bool {
        let about = match guard {
            Guard::Access(list) if spec.source_ranges.is_none() => {
                spec.source_ranges = Some(SourceRanges {
                    allow: list.allow.iter().map(ToString::to_string).collect(),
                    deny: list.deny.iter().map(ToString::to_string).collect(),
                });
                ADDRESS_ANNOTATIONS
            }
            Guard::BasicAuth(basic) if spec.basic_auth.is_none() => {
                let Some(secret) = self.value(ingress, self.prefix, "auth-secret") else { return false };
                let name = secret.rsplit('/').next().unwrap_or(secret).to_owned();
                let is_map = self.value(ingress, self.prefix, "auth-secret-type") == Some("auth-map");
                spec.basic_auth = Some(policies::BasicAuth {
                    // Ingresses can only name Secrets of their own namespace.
                    secret_ref: SecretReference { name, namespace: None },
                    format: is_map.then(|| "Map".to_owned()),
                    realm: Some(basic.realm.to_string()).filter(|realm| !realm.is_empty()),
                });
                PASSWORD_ANNOTATIONS
            }
            Guard::ExternalAuth(auth) if spec.external_auth.is_none() => {
                spec.external_auth = external_auth(auth, ingress, backends, protection);
                return spec.external_auth.is_some();
            }
            Guard::RateLimit(limit) if spec.rate_limits.len() < MAX_RATE_LIMITS => {
                spec.rate_limits.push(rate_limit(limit));
                RATE_ANNOTATIONS
            }
            Guard::ConcurrencyLimit(limit) if spec.concurrency_limit.is_none() => {
                spec.concurrency_limit = Some(policies::ConcurrencyLimit {
                    requests: limit.max.into(),
                    status: Some(limit.status.into()).filter(|status| *status != 503),
                    exempt: limit.exempt.iter().map(ToString::to_string).collect(),
                });
                CONNECTION_ANNOTATIONS
            }
            Guard::Jwt(_) => {
                spec.jwt = self.field(ingress, "jwt");
                return spec.jwt.is_some();
            }
            Guard::Oidc(_) => {
                spec.oidc = self.field(ingress, "oidc");
                return spec.oidc.is_some();
            }
            Guard::ApiKey(_) => {
                spec.api_key = self.field(ingress, "api-key");
                return spec.api_key.is_some();
            }
            Guard::Authorize(_) => {
                spec.authorization = self.field(ingress, "authorization");
                return spec.authorization.is_some();
            }
            _ => return false,
        };
        protection.remarks.push(Remark::same(about));
        true
    }
}

fn rate_limit(limit: &RateLimit) -> policies::RateLimit {
    let (by, claim) = match &limit.key {
        LimitKey::Address => (None, None),
        LimitKey::Claim(claim) => (Some("Claim"), Some(claim.to_string())),
        LimitKey::ApiClient => (Some("ApiKeyClient"), None),
    };
    policies::RateLimit {
        requests: limit.requests.into(),
        per: Some(limit.per).filter(|per| *per != Duration::from_secs(1)).map(duration_text),
        burst: Some(limit.burst.into()).filter(|burst| *burst > 0),
        status: Some(limit.status.into()).filter(|status| *status != 429),
        exempt: limit.exempt.iter().map(ToString::to_string).collect(),
        by: by.map(str::to_owned),
        claim,
        scope: (limit.scope == LimitScope::Fleet).then(|| "Fleet".to_owned()),
    }
}

/// Converts an authentication service; `None` if a policy cannot express it.
fn external_auth(
    auth: &ExternalAuth,
    ingress: &ObjectKey,
    backends: &mut Backends<'_>,
    protection: &mut Protection,
) -> Option<policies::ExternalAuth> {
    let AuthService::Backend { backend, host } = &auth.service else { return None };
    // Without these settings the service would decide about a different request.
    if !auth.fields.is_empty() || auth.filter.is_some() {
        return None;
    }
    let (Destination { service, port }, tls) = backends.auth_service(backend)?;
    protection.remarks.extend(tls);
    let namespace = (service.namespace != ingress.namespace).then(|| service.namespace.to_string());
    if namespace.is_some() {
        protection.foreign.push(service.clone());
    }
    let usual = Timeouts::default();
    let timeout = (auth.timeouts.read != usual.read).then(|| duration_text(auth.timeouts.read));
    let usual_host = format!("{}.{}.svc", service.name, service.namespace);
    let mut differs = |about, what| protection.remarks.push(Remark::differs(about, what));
    if auth.redirect.is_some() {
        differs(&["auth-request-redirect"], "X-Auth-Request-Redirect is the path and query of the request");
    }
    if auth.cookies != AuthCookies::default() {
        let remark = "cookies of the service are only added to successful responses";
        differs(&["auth-always-set-cookie"], remark);
    }
    if auth.kept.is_some() {
        differs(&["auth-cache-key", "auth-cache-duration"], "the service is called for every request");
    }
    protection.remarks.push(Remark::same(AUTH_SERVICE_ANNOTATIONS));
    Some(policies::ExternalAuth {
        backend_ref: ServiceReference { name: service.name.to_string(), namespace, port },
        host: Some(host.to_string()).filter(|host| *host != usual_host),
        path: Some(auth.target.to_string()).filter(|path| path != "/"),
        method: auth.method.as_deref().filter(|method| *method != "GET").map(str::to_owned),
        response_headers: auth.copied.iter().map(ToString::to_string).collect(),
        // The URL already contains the parameter with the URL of the request.
        sign_in_url: auth.sign_in.as_ref().map(ToString::to_string),
        timeout,
        grpc: None,
    })
}

/// Formats a duration. GEP-2257 allows at most five digits per unit.
pub(crate) fn duration_text(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99_999 => format!("{seconds}s"),
        seconds => format!("{}h", (seconds / 3600).min(99_999)),
    }
}
