//! What the model can express and is not supported yet, in one place. None of it is ignored silently: it is closed if
//! it protects something or if another response would be wrong, and a problem names it.

use fairway_model::{Guard, Listener, Rule, VirtualHost};

/// Unsupported features of a listener, whose connections are closed. None at present.
pub(crate) fn of_listener(_listener: &Listener) -> Option<&'static str> {
    None
}

/// Rules of a host that verifies client certificates which let every client pass: they forward nothing.
pub(crate) fn of_rule(host: &VirtualHost, rule: &Rule) -> Option<&'static str> {
    let verifies = |guard: &Guard| matches!(guard, Guard::ClientCertificate(_));
    (host.clients.is_some() && !rule.phases.guards.iter().any(verifies))
        .then_some("its host verifies clients, and this rule does not")
}
