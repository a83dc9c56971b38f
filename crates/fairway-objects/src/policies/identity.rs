//! Authentication by JSON Web Token, API key or login, and authorization. The annotations of Ingresses use the same structs.

use serde::{Deserialize, Deserializer, Serialize};

use crate::policies::references::{SecretOrConfigMapReference, SecretReference};

/// A JSON Web Token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Jwt {
    /// The protection space sent to clients; default `fairway`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// The allowed clock difference to issuers; default `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<String>,
    /// Where requests carry the token; default: after `Bearer ` in `Authorization`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<CredentialSource>,
    /// Issuers whose tokens are accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<JwtIssuer>,
}

/// Where requests carry a credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CredentialSource {
    /// `Header`, `Cookie` or `QueryParam`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The name of the header, cookie or query parameter.
    pub name: String,
    /// The text before the credential in a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtIssuer {
    /// `iss` of its tokens, byte for byte.
    pub issuer: String,
    /// Allowed values of `aud` in its tokens; if empty, tokens with `aud` are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Its public keys.
    pub keys: JwtKeys,
    /// Required claims of its tokens, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_claims: Vec<ClaimValues>,
    /// Required scopes of its tokens, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<String>,
    /// Claims that are sent to endpoints as headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims_to_headers: Vec<ClaimHeader>,
}

/// The public keys of an issuer: at a URL or in an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtKeys {
    /// The URL of the issuer's key set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Secrets and ConfigMaps with the authorities for that host in `ca.crt`; default: those of the system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<SecretOrConfigMapReference>,
    /// The Secret or ConfigMap that contains the key set in its entry `jwks.json`.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<SecretOrConfigMapReference>,
}

/// A claim that is one of several values, or a list that contains one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimValues {
    /// The claim; dots separate nested objects.
    pub name: String,
    /// Numbers and booleans are written as in JSON.
    pub values: Vec<String>,
}

/// A claim that is sent as a header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimHeader {
    /// The claim; dots separate nested objects.
    pub claim: String,
    /// The header.
    pub header: String,
}

/// An API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ApiKey {
    /// Where requests carry the key; default `X-API-Key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<CredentialSource>,
    /// Secrets with one entry per client: its key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<SecretReference>,
    /// The header with the client's name for endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_header: Option<String>,
}

/// A login with an OpenID provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Oidc {
    /// The issuer of the provider, byte for byte.
    pub issuer: String,
    /// The URL of its metadata; default: derived from the issuer (OpenID Connect Discovery).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_url: Option<String>,
    /// Further hosts of its token endpoint or its keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_hosts: Vec<String>,
    /// Secrets and ConfigMaps with the authorities for these hosts in `ca.crt`; default: those of the system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<SecretOrConfigMapReference>,
    /// The client id at the provider.
    pub client_id: String,
    /// The Secret that contains the client secret in its entry `client-secret`; public clients have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretReference>,
    /// Scopes in addition to `openid`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Further parameters of the authorization request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OidcParameter>,
    /// The path the provider redirects browsers to; default `/oauth2/callback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_path: Option<String>,
    /// The logout path; default `/oauth2/logout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logout_path: Option<String>,
    /// The path after a logout; default `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_logout_path: Option<String>,
    /// The path where the provider reports logouts elsewhere; disabled by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_channel_logout_path: Option<String>,
    /// The time after which users must log in again, at most `168h`; default `12h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_lifetime: Option<String>,
    /// The allowed clock difference to the provider; default `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<String>,
    /// Whether the access token is sent to endpoints in `Authorization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_access_token: Option<bool>,
    /// Required claims of the ID token, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_claims: Vec<ClaimValues>,
    /// Claims of the ID token that are sent to endpoints as headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims_to_headers: Vec<ClaimHeader>,
}

/// A parameter of the authorization request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OidcParameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Authorization rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Authorization {
    /// The first matching rule decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AuthorizationRule>,
}

/// A rule for requests that meet all of its conditions. Unlike elsewhere, an absent list differs from an empty one, which would
/// be a forgotten condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuthorizationRule {
    /// `Allow` or `Deny`.
    pub action: String,
    /// Addresses and ranges, any of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub sources: Option<Vec<String>>,
    /// Country codes (ISO 3166-1 alpha-2), any of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub countries: Option<Vec<String>>,
    /// Autonomous system numbers, any of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub asns: Option<Vec<u32>>,
    /// Methods, any of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub methods: Option<Vec<String>>,
    /// Claims of the token, all of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub claims: Option<Vec<ClaimValues>>,
    /// Scopes of the token, all of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub scopes: Option<Vec<String>>,
    /// Clients of API keys, any of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub api_key_clients: Option<Vec<String>>,
    /// Headers, all of them.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub headers: Option<Vec<HeaderCondition>>,
}

/// A list. A value that is not a list, such as `null`, does not count as absent.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    Vec::deserialize(from).map(Some)
}

/// A condition on a header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderCondition {
    /// `Exact` (default) or `RegularExpression`, which must match the whole value.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}
