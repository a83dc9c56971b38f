//! The hashes of passwords of a configuration, which its serialised form never has: taken out to be kept beside it, and put
//! back. Shows them to nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Config, Guard, Rule, Users, VirtualHost};
use serde::{Deserialize, Serialize};

/// Users and hashes by the policy that has them.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Passwords(BTreeMap<Arc<str>, Vec<Entry>>);

/// A user and the hash.
type Entry = (Arc<str>, Arc<str>);

impl Passwords {
    /// Those of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let rules = config.hosts.values().flat_map(|host| rules(host));
        let mut all = BTreeMap::new();
        for basic in rules.flat_map(|rule| &rule.phases.guards).filter_map(Guard::basic_auth) {
            let users = || basic.users.iter().map(|(user, hash)| (user.clone(), hash.clone())).collect();
            all.entry(basic.policy.clone()).or_insert_with(users);
        }
        Self(all)
    }

    /// Puts them back. A guard of which nothing was kept lets nobody pass.
    pub(crate) fn restore(&self, config: &mut Config) {
        let is_guarded = |host: &VirtualHost| rules(host).any(asks_for_passwords);
        let guarded: Vec<_> = config
            .hosts
            .iter()
            .filter(|(_, host)| is_guarded(host))
            .map(|(key, host)| (key.clone(), host.clone()))
            .collect();
        for (key, host) in guarded {
            let mut whole = VirtualHost::clone(&host);
            for route in &mut whole.routes {
                for rule in Arc::make_mut(route).rules.iter_mut().filter(|rule| asks_for_passwords(rule)) {
                    let guards = Arc::make_mut(&mut rule.phases).guards.iter_mut();
                    for basic in guards.filter_map(Guard::basic_auth_mut) {
                        let users = self.0.get(&basic.policy).into_iter().flatten().cloned();
                        basic.users = Users::new(users);
                    }
                }
            }
            config.hosts.insert(key, Arc::new(whole));
        }
    }
}

fn asks_for_passwords(rule: &Rule) -> bool {
    rule.phases.guards.iter().any(|guard| guard.basic_auth().is_some())
}

fn rules(host: &VirtualHost) -> impl Iterator<Item = &Rule> {
    host.routes.iter().flat_map(|route| &route.rules)
}
