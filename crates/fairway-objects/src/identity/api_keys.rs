//! API keys. Errors name no entry of a Secret: keys and names may have been swapped by mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fairway_model::{ApiKeyAuth, ApiKeys, CredentialLocation};
use fairway_token::digest;

use crate::certificate::secret_value;
use crate::identity::context::Context;
use crate::identity::credential_locations::read_locations;
use crate::identity::errors::{IdentityFieldError, IdentityResult};
use crate::identity::headers::{is_same_header, written_header};
use crate::identity::values::{check_not_empty, max_items};
use crate::object::{Kind, ObjectKey};
use crate::policies as types;

/// The minimum length of an API key in bytes: a shorter one could be guessed.
const MIN_API_KEY_BYTES: usize = 16;

pub(super) fn read_api_key(api_key: &types::ApiKey, context: Context<'_>) -> IdentityResult<ApiKeyAuth> {
    let default = CredentialLocation::Header { name: "X-API-Key".into(), prefix: "".into() };
    let locations = read_locations("apiKey.from", &api_key.from, default)?;
    let client_header = api_key.client_header.as_deref();
    let client_header = client_header.map(|name| written_header("apiKey.clientHeader", name)).transpose()?;
    let is_client_header = |location: &CredentialLocation| match (location, &client_header) {
        (CredentialLocation::Header { name, .. }, Some(header)) => is_same_header(name, header),
        _ => false,
    };
    if locations.iter().any(is_client_header) {
        return Err(IdentityFieldError::new("apiKey.clientHeader", "requests have the key in this header"));
    }
    let field = "apiKey.secretRefs";
    check_not_empty(field, &api_key.secret_refs, max_items::SECRETS)?;
    let mut keys: BTreeMap<[u8; 32], Arc<str>> = BTreeMap::new();
    let mut policy = BTreeSet::new();
    for (index, it) in api_key.secret_refs.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let namespace = it.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(context.namespace);
        let key = ObjectKey::new(namespace, &it.name);
        (context.permits)(Kind::Secret, &key).map_err(|problem| IdentityFieldError::new(&field, problem))?;
        let Some(secret) = context.resources.secrets.get(&key) else {
            let problem = format!("Secret {key} does not exist");
            return Err(IdentityFieldError { is_missing: true, ..IdentityFieldError::new(field, problem) });
        };
        let secret = &secret.object;
        let wrong = |why: &str| IdentityFieldError::new(&field, format!("Secret {key}: {why}"));
        let data = secret.data.iter().flatten().map(|(name, _)| name);
        let clients: BTreeSet<_> =
            data.chain(secret.string_data.iter().flatten().map(|(name, _)| name)).collect();
        if clients.is_empty() {
            return Err(wrong("it has no key"));
        }
        for client in clients {
            let value = without_line_end(secret_value(secret, client).unwrap_or_default());
            if value.len() < MIN_API_KEY_BYTES {
                let why = format!("the key of one of its clients is shorter than {MIN_API_KEY_BYTES} bytes");
                return Err(wrong(&why));
            }
            if !value.iter().all(u8::is_ascii_graphic) {
                return Err(wrong("the key of one of its clients has something besides visible ASCII"));
            }
            let before = keys.insert(digest(value), client.as_str().into());
            if before.is_some_and(|before| *before != **client) {
                return Err(wrong("two clients have the same key"));
            }
        }
        // Distinguishes two states of the Secret without revealing its content.
        let version = secret.metadata.resource_version.as_deref();
        policy.insert(format!("{key}{}", version.map(|version| format!("@{version}")).unwrap_or_default()));
    }
    let policy = policy.into_iter().collect::<Vec<_>>().join(",").into();
    Ok(ApiKeyAuth { policy, locations, client_header, keys: ApiKeys::new(keys) })
}

/// Files end with a line break that is not meant as part of a key.
fn without_line_end(value: &[u8]) -> &[u8] {
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    value.strip_suffix(b"\r").unwrap_or(value)
}
