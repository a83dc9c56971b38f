//! What the model can say and nothing serves yet, in one place. None of it is ignored in silence: it is closed where it
//! protects or where another answer would be wrong, and each has a problem that names it.

use fairway_model::{Guard, Listener, Rule, VirtualHost};

/// Of a listener: its connections are closed. At present nothing.
pub(crate) fn of_listener(_listener: &Listener) -> Option<&'static str> {
    None
}

/// Of a rule of a host that verifies its clients and that lets everybody pass: it forwards nothing.
pub(crate) fn of_rule(host: &VirtualHost, rule: &Rule) -> Option<&'static str> {
    let verifies = |guard: &Guard| matches!(guard, Guard::ClientCertificate(_));
    (host.clients.is_some() && !rule.phases.guards.iter().any(verifies))
        .then_some("its host verifies clients, and this rule does not")
}
