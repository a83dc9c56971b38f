//! The web application firewall: the rules for the requests of an Ingress, and how requests are sent to
//! `fairway-waf`, which runs Coraza.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::{
    BodyMode, Extension, GrpcService, MutationRules, Phases, ProcessingPhases, Template, TemplatePart,
    Timeouts,
};
use fairway_objects::backend::BackendRef;
use fairway_objects::object::ObjectKey;
use fairway_objects::options::Firewall;
use serde_json::json;

use crate::ingress::context::Context;
use crate::ingress::defaults::FirewallDefaults;
use crate::seclang::{CORE_RULE_SET, Engine, RulePart, RuleText};

/// The consequence of a missing firewall.
pub(crate) const NO_FIREWALL: &str =
    "requests would pass without the web application firewall, which --waf names (chart value waf.enabled)";

/// Timeout for one message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeouts of calls, which stay open for a whole exchange.
const CALL_TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    send: Duration::from_secs(5),
    read: Duration::from_secs(3600),
    request: None,
    backend_request: None,
};
/// `SecRequestBodyLimit` of the recommended configuration.
const BODY_LIMIT: u32 = 13_107_200;
/// Minimum and maximum of buffered body bytes, regardless of `SecRequestBodyLimit`.
const HELD_BODY_BYTES: std::ops::RangeInclusive<u32> = 128 * 1024..=8 * 1024 * 1024;
/// Metadata namespace with the rules of an exchange.
const METADATA_NAMESPACE: &str = "fairway.waf";
/// Maximum `SecResponseBodyLimit` that `fairway-waf` accepts.
const MAX_RESPONSE_BODY: u32 = 1024 * 1024;

/// Firewall settings of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IngressRules {
    /// `modsecurity-snippet`.
    pub(crate) snippet: Option<RuleText>,
    /// `enable-owasp-core-rules`.
    pub(crate) core_rule_set: bool,
}

impl FirewallDefaults {
    /// The rules in `http { }` of ingress-nginx.
    fn rules(&self) -> RuleText {
        if !self.enabled {
            return RuleText::default();
        }
        let mut rules = self.rules.as_deref().cloned().unwrap_or_else(recommended);
        if self.core_rule_set {
            rules.add_core_rule_set();
        }
        rules
    }
}

impl IngressRules {
    /// The rules of its paths: those in `location { }` of ingress-nginx, merged with those in `http { }`
    /// (`buildModSecurityForLocation`, `ngx_http_modsecurity_merge_conf`).
    ///
    /// # Errors
    /// The id of a rule that the ConfigMap also has.
    pub(crate) fn with(self, of_all: &FirewallDefaults) -> Result<RuleText, u32> {
        let mut own_rules = match self.snippet {
            Some(snippet) => snippet,
            None if of_all.enabled => RuleText::default(),
            None => recommended(),
        };
        if self.core_rule_set {
            own_rules.add_core_rule_set();
        }
        own_rules.before(of_all.rules())
    }
}

fn recommended() -> RuleText {
    let mut rules = RuleText::default();
    rules.add_recommended();
    rules
}

/// `$request_id`, the default transaction id.
pub(crate) fn request_id() -> Template {
    Template(vec![TemplatePart::RequestId])
}

/// Sends the requests of `object` to the firewall; `None` if its engine is off.
pub(crate) fn extension(
    firewall: &Firewall,
    kind: &str,
    object: &ObjectKey,
    rules: &RuleText,
    transaction: Template,
) -> Option<(Extension, BackendRef)> {
    let mode = match rules.engine {
        Some(Engine::Off) => return None,
        Some(Engine::On) => "On",
        // Without SecRuleEngine, ModSecurity v3 inspects requests and does nothing.
        Some(Engine::DetectionOnly) | None => "DetectionOnly",
    };
    let setting = |name: &str| rules.settings.get(name).map(String::as_str);
    let body = match (setting("SecRequestBodyAccess"), setting("SecRequestBodyLimitAction")) {
        (Some("Off"), _) => BodyMode::None,
        // ModSecurity never refuses a longer body in DetectionOnly mode.
        (_, Some("ProcessPartial")) => BodyMode::BufferedPartial,
        _ if mode != "On" => BodyMode::BufferedPartial,
        _ => BodyMode::Buffered,
    };
    let limit = setting("SecRequestBodyLimit").and_then(|limit| limit.parse().ok()).unwrap_or(BODY_LIMIT);
    let metadata = json!({
        "name": format!("{kind} {object}"),
        "mode": mode,
        "core_rule_set": rules.has_core_rule_set(),
        "directives": directives(rules),
    });
    let backend = firewall.backend();
    let attribute = |name: &str, part| (Arc::from(name), Template(vec![part]));
    let extension = Extension {
        name: format!("{kind}/{}/{}", object.namespace, object.name).into(),
        service: GrpcService {
            backend: backend.key.clone(),
            authority: firewall.authority().into(),
            timeouts: CALL_TIMEOUTS,
        },
        message_timeout: MESSAGE_TIMEOUT,
        failure_mode_allow: false,
        request: ProcessingPhases { headers: true, body, trailers: false },
        // fairway-waf enables response bodies if a rule inspects them.
        response: ProcessingPhases { headers: true, body: BodyMode::None, trailers: false },
        allow_mode_override: true,
        mutation_rules: MutationRules::default(),
        max_buffered_body: limit.clamp(*HELD_BODY_BYTES.start(), *HELD_BODY_BYTES.end()),
        attributes: vec![
            attribute("source.address", TemplatePart::Address),
            attribute("destination.port", TemplatePart::Port),
            attribute("request.id", TemplatePart::RequestId),
            attribute("request.protocol", TemplatePart::Protocol),
            (Arc::from("waf.transaction_id"), transaction),
        ],
        metadata: vec![(METADATA_NAMESPACE.into(), metadata.to_string().into())],
        picks_endpoint: false,
    };
    Some((extension, backend))
}

/// For requests that no Ingress serves, if the ConfigMap enables the firewall.
pub(crate) fn default_extension(context: &Context<'_>) -> Option<(Extension, BackendRef)> {
    let firewall = context.inputs.options.firewall.as_ref()?;
    let of_all = &context.defaults.firewall;
    let map = context.inputs.options.configmap.as_ref().filter(|_| of_all.enabled)?;
    extension(firewall, "ConfigMap", map, &of_all.rules(), request_id())
}

/// The phases of rules that use the firewall.
pub(crate) fn phases(extension: Extension) -> Phases {
    Phases { extensions: vec![Arc::new(extension)], ..Phases::default() }
}

/// One directive per line: values, rules in order, changes to rules. The engine is omitted, because the mode
/// expresses it. `fairway-waf` reads them after the recommended configuration.
fn directives(rules: &RuleText) -> String {
    let settings = rules.settings.iter().map(|(name, value)| match (*name, value.parse::<u32>()) {
        ("SecRequestBodyLimit", Ok(bytes)) => format!("{name} {}", bytes.min(*HELD_BODY_BYTES.end())),
        ("SecResponseBodyLimit", Ok(bytes)) => format!("{name} {}", bytes.min(MAX_RESPONSE_BODY)),
        _ => format!("{name} {value}"),
    });
    // ModSecurity does not inspect response bodies by default; the recommended configuration enables them.
    let access = "SecResponseBodyAccess";
    let implied = !rules.recommended && !rules.settings.contains_key(access);
    let implied = implied.then(|| format!("{access} Off"));
    let parts = rules.parts.iter().map(|part| match part {
        RulePart::Directive(directive) => directive.clone(),
        RulePart::CoreRuleSet => format!("Include {CORE_RULE_SET}"),
    });
    // Coraza cannot change a rule that was removed.
    let (removals, changes): (Vec<_>, Vec<_>) =
        rules.exceptions.iter().cloned().partition(|directive| directive.starts_with("SecRuleRemove"));
    let lines = implied.into_iter().chain(settings).chain(parts).chain(changes).chain(removals);
    lines.collect::<Vec<_>>().join("\n")
}
