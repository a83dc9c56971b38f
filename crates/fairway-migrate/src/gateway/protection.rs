//! Guards of a rule as the spec of a SecurityPolicy: Fairway's own, because the Gateway API has no fields for them. A guard that no
//! policy can express closes the rule.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_model::{
    AuthCookies, AuthService, Deny, ExternalAuth, Guard, LimitKey, LimitScope, RateLimit, Timeouts,
};
use fairway_objects::annotations::field_of_policies;
use fairway_objects::object::ObjectKey;
use fairway_objects::policies::{self, SecretReference, SecurityPolicySpec, ServiceReference, SourceRanges};
use k8s_openapi::api::networking::v1::Ingress;
use serde::de::DeserializeOwned;

use crate::gateway::backends::{Backends, Destination};
use crate::gateway::input::Input;
use crate::gateway::remark::Remark;

const ADDRESSES: &[&str] = &["whitelist-source-range", "allowlist-source-range", "denylist-source-range"];
const PASSWORDS: &[&str] = &["auth-type", "auth-secret", "auth-secret-type", "auth-realm"];
const SERVICE: &[&str] = &[
    "auth-url",
    "auth-method",
    "auth-response-headers",
    "auth-signin",
    "auth-signin-redirect-param",
    "auth-snippet",
];
const RATES: &[&str] =
    &["limit-rps", "limit-rpm", "limit-burst-multiplier", "limit-allowlist", "limit-whitelist"];
/// The most limits of a SecurityPolicy.
const MAX_RATE_LIMITS: usize = 4;
const CONNECTIONS: &[&str] = &["limit-connections", "limit-allowlist", "limit-whitelist"];

/// What of protection a guard gives; `None` for one that gives none.
pub(crate) fn name_of(guard: &Guard) -> Option<&'static str> {
    Some(match guard {
        Guard::Access(_) => "the list of client addresses that may pass",
        Guard::ClientCertificate(_) => "the certificates that clients must show",
        Guard::OverTls => "the refusal of plain requests",
        // In the paths of Gateway API a line break stays escaped, and `.` matches that.
        Guard::Deny(deny) if *deny == Deny::line_breaks() => return None,
        Guard::Deny(_) => "the requests that fairway.dev/deny refuses",
        Guard::Respond(_) => "the requests that a snippet answers",
        Guard::ExternalAuth(_) => "the question to the authentication service",
        Guard::GrpcAuth(_) => "the question to the authorization service",
        Guard::BasicAuth(_) => "the password",
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

/// Whether a guard bounds what clients may send.
pub(crate) fn is_limit(guard: &Guard) -> bool {
    matches!(guard, Guard::RateLimit(_) | Guard::ConcurrencyLimit(_))
}

/// What is lost with a limit.
pub(crate) fn without_limit(guard: &Guard) -> Remark {
    match guard {
        Guard::ConcurrencyLimit(_) => {
            Remark::lost(CONNECTIONS, "clients may send any number of requests at a time")
        }
        _ => Remark::lost(RATES, "clients may send any number of requests"),
    }
}

/// What SecurityPolicies say of the guards of a rule.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// The policy without its targets; `None` where no guard needs one.
    pub(crate) spec: Option<SecurityPolicySpec>,
    /// Guards that no policy can express.
    pub(crate) missing: Vec<&'static str>,
    /// Services in other namespaces that the policy asks.
    pub(crate) foreign: Vec<ObjectKey>,
    pub(crate) remarks: Vec<Remark>,
}

/// The annotations of all Ingresses: what names objects and their values is read there and not from guards.
pub(crate) struct Annotated<'i> {
    ingresses: BTreeMap<ObjectKey, &'i Ingress>,
    prefix: &'i str,
}

impl<'i> Annotated<'i> {
    pub(crate) fn new(input: &Input<'i>) -> Self {
        let keyed = input.ingresses.iter().map(|(ingress, _)| (ObjectKey::of(&ingress.metadata), ingress));
        Self { ingresses: keyed.collect(), prefix: input.prefix }
    }

    fn value(&self, ingress: &ObjectKey, prefix: &str, name: &str) -> Option<&'i str> {
        let annotations = self.ingresses.get(ingress)?.metadata.annotations.as_ref()?;
        annotations.get(&format!("{prefix}/{name}")).map(|value| value.trim())
    }

    /// An annotation of Fairway's own, which has the fields of a policy.
    fn field<T: DeserializeOwned>(&self, ingress: &ObjectKey, name: &str) -> Option<T> {
        field_of_policies(self.value(ingress, "fairway.dev", name)?).ok()
    }

    /// Expresses the guards of a rule.
    pub(crate) fn protection(
        &self,
        ingress: &ObjectKey,
        guards: &[&Guard],
        backends: &mut Backends<'_>,
    ) -> Protection {
        let mut protection = Protection::default();
        let mut spec = SecurityPolicySpec::default();
        for guard in guards {
            if self.express(guard, ingress, backends, &mut spec, &mut protection) {
                continue;
            }
            protection.missing.extend(name_of(guard));
            protection.remarks.extend(Some(guard).filter(|it| is_limit(it)).map(|it| without_limit(it)));
        }
        protection.spec = Some(spec).filter(|spec| *spec != SecurityPolicySpec::default());
        protection
    }

    /// Adds a guard to the spec; `false` where no field expresses it.
    fn express(
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
                ADDRESSES
            }
            Guard::BasicAuth(basic) if spec.basic_auth.is_none() => {
                let Some(secret) = self.value(ingress, self.prefix, "auth-secret") else { return false };
                let name = secret.rsplit('/').next().unwrap_or(secret).to_owned();
                let is_map = self.value(ingress, self.prefix, "auth-secret-type") == Some("auth-map");
                spec.basic_auth = Some(policies::BasicAuth {
                    // Ingresses name Secrets of their own namespace alone.
                    secret_ref: SecretReference { name, namespace: None },
                    format: is_map.then(|| "Map".to_owned()),
                    realm: Some(basic.realm.to_string()).filter(|realm| !realm.is_empty()),
                });
                PASSWORDS
            }
            Guard::ExternalAuth(auth) if spec.external_auth.is_none() => {
                spec.external_auth = external_auth(auth, ingress, backends, protection);
                return spec.external_auth.is_some();
            }
            Guard::RateLimit(limit) if spec.rate_limits.len() < MAX_RATE_LIMITS => {
                spec.rate_limits.push(rate_limit(limit));
                RATES
            }
            Guard::ConcurrencyLimit(limit) if spec.concurrency_limit.is_none() => {
                spec.concurrency_limit = Some(policies::ConcurrencyLimit {
                    requests: limit.most.into(),
                    status: Some(limit.status.into()).filter(|status| *status != 503),
                    exempt: limit.exempt.iter().map(ToString::to_string).collect(),
                });
                CONNECTIONS
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
        per: Some(limit.per).filter(|per| *per != Duration::from_secs(1)).map(duration),
        burst: Some(limit.burst.into()).filter(|burst| *burst > 0),
        status: Some(limit.status.into()).filter(|status| *status != 429),
        exempt: limit.exempt.iter().map(ToString::to_string).collect(),
        by: by.map(str::to_owned),
        claim,
        scope: (limit.scope == LimitScope::Fleet).then(|| "Fleet".to_owned()),
    }
}

/// The question to an authentication service; `None` where a policy cannot ask it.
fn external_auth(
    auth: &ExternalAuth,
    ingress: &ObjectKey,
    backends: &mut Backends<'_>,
    protection: &mut Protection,
) -> Option<policies::ExternalAuth> {
    let AuthService::Backend { backend, host } = &auth.service else { return None };
    // Without these the service would decide about another request.
    if !auth.fields.is_empty() || auth.filter.is_some() {
        return None;
    }
    let (Destination { service, port }, tls) = backends.asked(backend)?;
    protection.remarks.extend(tls);
    let namespace = (service.namespace != ingress.namespace).then(|| service.namespace.to_string());
    if namespace.is_some() {
        protection.foreign.push(service.clone());
    }
    let usual = Timeouts::default();
    let timeout = (auth.timeouts.read != usual.read).then(|| duration(auth.timeouts.read));
    let usual_host = format!("{}.{}.svc", service.name, service.namespace);
    let mut differs = |about, what| protection.remarks.push(Remark::differs(about, what));
    if auth.redirect.is_some() {
        differs(&["auth-request-redirect"], "X-Auth-Request-Redirect is the path and query of the request");
    }
    if auth.cookies != AuthCookies::default() {
        let what = "cookies of the service are on successful responses alone";
        differs(&["auth-always-set-cookie"], what);
    }
    if auth.kept.is_some() {
        differs(&["auth-cache-key", "auth-cache-duration"], "the service is asked about every request");
    }
    protection.remarks.push(Remark::same(SERVICE));
    Some(policies::ExternalAuth {
        backend_ref: ServiceReference { name: service.name.to_string(), namespace, port },
        host: Some(host.to_string()).filter(|host| *host != usual_host),
        path: Some(auth.target.to_string()).filter(|path| path != "/"),
        method: auth.method.as_deref().filter(|method| *method != "GET").map(str::to_owned),
        response_headers: auth.copied.iter().map(ToString::to_string).collect(),
        // It has the parameter with the request's own URL already.
        sign_in_url: auth.sign_in.as_ref().map(ToString::to_string),
        timeout,
        grpc: None,
    })
}

/// GEP-2257: five digits at most for a unit.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99_999 => format!("{seconds}s"),
        seconds => format!("{}h", (seconds / 3600).min(99_999)),
    }
}
