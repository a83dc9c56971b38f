//! The password and API key hashes and the client secrets of a configuration, which its serialized form omits: extracted to be
//! stored next to it, and restored.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{ApiKeys, ClientSecret, Config, Guard, Rule, Users, VirtualHost};
use serde::{Deserialize, Serialize};

/// What guards compare credentials with, by policy.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct GuardSecrets {
    /// Users and the hashes of their passwords.
    #[serde(default)]
    passwords: BTreeMap<Arc<str>, Vec<NamedSecret<Arc<str>>>>,
    /// Clients and the SHA-256 of their keys.
    #[serde(default)]
    api_keys: BTreeMap<Arc<str>, Vec<NamedSecret<[u8; 32]>>>,
    /// What authenticates Fairway at identity providers.
    #[serde(default)]
    client_secrets: BTreeMap<Arc<str>, Arc<str>>,
}

/// A user or client, and its credential's hash.
type NamedSecret<T> = (Arc<str>, T);

impl GuardSecrets {
    /// The secrets of a configuration.
    pub(crate) fn from_config(config: &Config) -> Self {
        let mut all = Self::default();
        let rules = config.hosts.values().flat_map(|host| rules(host));
        for guard in rules.flat_map(|rule| &rule.phases.guards) {
            if let Some(basic) = guard.basic_auth() {
                let users = || basic.users.iter().map(|(user, hash)| (user.clone(), hash.clone())).collect();
                all.passwords.entry(basic.policy.clone()).or_insert_with(users);
            }
            if let Some(auth) = guard.api_key() {
                let keys = || auth.keys.iter().map(|(digest, client)| (client.clone(), *digest)).collect();
                all.api_keys.entry(auth.policy.clone()).or_insert_with(keys);
            }
            if let Some(auth) = guard.oidc()
                && let Some(secret) = auth.client_secret.text()
            {
                all.client_secrets.insert(auth.client_secret_version.clone(), secret.clone());
            }
        }
        all
    }

    /// Restores the secrets. A guard without stored secrets lets no one pass.
    pub(crate) fn restore(&self, config: &mut Config) {
        let is_guarded = |host: &VirtualHost| rules(host).any(has_secrets);
        let guarded: Vec<_> = config
            .hosts
            .iter()
            .filter(|(_, host)| is_guarded(host))
            .map(|(key, host)| (key.clone(), host.clone()))
            .collect();
        for (key, host) in guarded {
            let mut restored = VirtualHost::clone(&host);
            for route in &mut restored.routes {
                for rule in Arc::make_mut(route).rules.iter_mut().filter(|rule| has_secrets(rule)) {
                    Arc::make_mut(&mut rule.phases)
                        .guards
                        .iter_mut()
                        .for_each(|guard| self.restore_guard(guard));
                }
            }
            config.hosts.insert(key, Arc::new(restored));
        }
    }

    fn restore_guard(&self, guard: &mut Guard) {
        if let Some(basic) = guard.basic_auth_mut() {
            let users = self.passwords.get(&basic.policy).into_iter().flatten().cloned();
            basic.users = Users::new(users);
        }
        if let Some(auth) = guard.api_key_mut() {
            let keys = self.api_keys.get(&auth.policy).into_iter().flatten();
            auth.keys = ApiKeys::new(keys.map(|(client, digest)| (*digest, client.clone())));
        }
        if let Some(auth) = guard.oidc_mut() {
            let secret = self.client_secrets.get(&auth.client_secret_version);
            auth.client_secret = secret.map(|secret| ClientSecret::new(secret)).unwrap_or_default();
        }
    }
}

fn has_secrets(rule: &Rule) -> bool {
    let has_secret =
        |guard: &Guard| guard.basic_auth().is_some() || guard.api_key().is_some() || guard.oidc().is_some();
    rule.phases.guards.iter().any(has_secret)
}

fn rules(host: &VirtualHost) -> impl Iterator<Item = &Rule> {
    host.routes.iter().flat_map(|route| &route.rules)
}
