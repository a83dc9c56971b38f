//! Who asks, by a JSON Web Token, an API key or a login, and what that client may do. The annotations of Ingresses have the same objects.

use serde::{Deserialize, Deserializer, Serialize};

use crate::policies::references::{SecretOrConfigMapReference, SecretReference};

/// A JSON Web Token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Jwt {
    /// The protection space that clients are told; `fairway` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// How far the clocks of issuers may differ; `30s` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<String>,
    /// Where requests have the token; behind `Bearer ` in `Authorization` where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<CredentialSource>,
    /// Whose tokens are accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<JwtIssuer>,
}

/// Where requests have a credential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CredentialSource {
    /// `Header`, `Cookie` or `QueryParam`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The name of the header, cookie or query parameter.
    pub name: String,
    /// What stands before the credential in a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtIssuer {
    /// `iss` of its tokens, byte for byte.
    pub issuer: String,
    /// `aud` of its tokens must be one of these; where there are none, tokens with `aud` are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Its public keys.
    pub keys: JwtKeys,
    /// Claims that its tokens must have; all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_claims: Vec<ClaimValues>,
    /// Scopes that its tokens must have; all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<String>,
    /// Claims that endpoints get as headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims_to_headers: Vec<ClaimHeader>,
}

/// The public keys of an issuer: those at a URL, or those in an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtKeys {
    /// Where the issuer publishes its key set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Secrets and ConfigMaps with the authorities of that host in `ca.crt`; those of the system where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<SecretOrConfigMapReference>,
    /// The Secret or ConfigMap with the key set in its entry `jwks.json`.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<SecretOrConfigMapReference>,
}

/// A claim that is one of several values, or a list that contains one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimValues {
    /// The claim; dots lead into objects.
    pub name: String,
    /// Numbers and booleans as JSON writes them.
    pub values: Vec<String>,
}

/// A claim as a header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimHeader {
    /// The claim; dots lead into objects.
    pub claim: String,
    /// The header.
    pub header: String,
}

/// An API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ApiKey {
    /// Where requests have the key; in `X-API-Key` where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<CredentialSource>,
    /// Secrets whose entries are clients, each with its key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<SecretReference>,
    /// The header with which endpoints get the name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_header: Option<String>,
}

/// A login with an OpenID provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Oidc {
    /// The issuer of the provider, byte for byte.
    pub issuer: String,
    /// Where its metadata is; below the issuer, as OpenID Connect Discovery says, where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_url: Option<String>,
    /// Other hosts on which its token endpoint or its keys are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_hosts: Vec<String>,
    /// Secrets and ConfigMaps with the authorities of these hosts in `ca.crt`; those of the system where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<SecretOrConfigMapReference>,
    /// The name of the client at the provider.
    pub client_id: String,
    /// The Secret with the secret of the client in its entry `client-secret`; public clients have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretReference>,
    /// What is asked for besides `openid`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Further parameters of the authorization request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OidcParameter>,
    /// Where the provider sends browsers back to; `/oauth2/callback` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_path: Option<String>,
    /// Where users log out; `/oauth2/logout` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logout_path: Option<String>,
    /// Where they are after that; `/` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_logout_path: Option<String>,
    /// Where the provider says that users have logged out elsewhere; it cannot where this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_channel_logout_path: Option<String>,
    /// After which time users log in again, at most `168h`; `12h` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_lifetime: Option<String>,
    /// How far the clock of the provider may differ; `30s` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<String>,
    /// Whether endpoints get the access token in `Authorization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_access_token: Option<bool>,
    /// Claims that the ID token must have; all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_claims: Vec<ClaimValues>,
    /// Claims of the ID token that endpoints get as headers.
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

/// What is allowed to whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Authorization {
    /// The first rule that a request meets decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AuthorizationRule>,
}

/// A rule for the requests that meet all of its conditions. Unlike elsewhere, a list that is absent is not an empty one: it would
/// be a condition that was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuthorizationRule {
    /// `Allow` or `Deny`.
    pub action: String,
    /// Addresses and ranges; one is enough.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub sources: Option<Vec<String>>,
    /// Codes of countries (ISO 3166-1 alpha-2); one is enough.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub countries: Option<Vec<String>>,
    /// Numbers of autonomous systems; one is enough.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub asns: Option<Vec<u32>>,
    /// Methods; one is enough.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub methods: Option<Vec<String>>,
    /// Claims of the token; all must hold.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub claims: Option<Vec<ClaimValues>>,
    /// Scopes of the token; all must be there.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub scopes: Option<Vec<String>>,
    /// Clients of API keys; one is enough.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub api_key_clients: Option<Vec<String>>,
    /// Headers; all must hold.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "list")]
    pub headers: Option<Vec<HeaderCondition>>,
}

/// A list. What is there and no list, such as `null`, is no condition that is absent.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    Vec::deserialize(from).map(Some)
}

/// A condition on a header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderCondition {
    /// `Exact` (default) or `RegularExpression`, which covers the whole value.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}
