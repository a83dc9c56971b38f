//! The web application firewall: which rules hold for the requests of an Ingress, and how they are shown to `fairway-waf`, which runs
//! Coraza. Reads no annotation.

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
use crate::seclang::{CORE_RULE_SET, Engine, Part, RuleText};

/// What is said where there is none.
pub(crate) const NONE: &str =
    "requests would pass without the web application firewall, which --waf names (chart value waf.enabled)";

/// How long the firewall may take for one message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Of calls: they are open as long as their exchanges.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    send: Duration::from_secs(5),
    read: Duration::from_secs(3600),
    request: None,
    backend_request: None,
};
/// `SecRequestBodyLimit` of the recommended configuration.
const BODY_LIMIT: u32 = 13_107_200;
/// The least and the most that is held of a body, whatever `SecRequestBodyLimit` says.
const HELD_BODY: std::ops::RangeInclusive<u32> = 128 * 1024..=8 * 1024 * 1024;
/// Where `fairway-waf` reads what holds for an exchange.
const METADATA: &str = "fairway.waf";
/// `SecResponseBodyLimit` that `fairway-waf` allows.
const MAX_RESPONSE_BODY: u32 = 1024 * 1024;

/// What an Ingress asks for that wants the firewall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnRules {
    /// `modsecurity-snippet`.
    pub(crate) snippet: Option<RuleText>,
    /// `enable-owasp-core-rules`.
    pub(crate) core_rule_set: bool,
}

impl FirewallDefaults {
    /// What `http { }` of ingress-nginx has.
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

impl OwnRules {
    /// The rules of its paths: what `location { }` of ingress-nginx has, merged with what `http { }` has
    /// (`buildModSecurityForLocation`, `ngx_http_modsecurity_merge_conf`).
    ///
    /// # Errors
    /// The id of a rule that the ConfigMap has, too.
    pub(crate) fn with(self, of_all: &FirewallDefaults) -> Result<RuleText, u32> {
        let mut own = match self.snippet {
            Some(snippet) => snippet,
            None if of_all.enabled => RuleText::default(),
            None => recommended(),
        };
        if self.core_rule_set {
            own.add_core_rule_set();
        }
        own.before(of_all.rules())
    }
}

fn recommended() -> RuleText {
    let mut rules = RuleText::default();
    rules.add_recommended();
    rules
}

/// `$request_id`, which names a transaction unless an annotation says otherwise.
pub(crate) fn request_id() -> Template {
    Template(vec![TemplatePart::RequestId])
}

/// How requests of `object` are shown to the firewall; `None` where its engine is off.
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
        // Without SecRuleEngine ModSecurity v3 looks and does nothing.
        Some(Engine::DetectionOnly) | None => "DetectionOnly",
    };
    let setting = |name: &str| rules.settings.get(name).map(String::as_str);
    let body = match (setting("SecRequestBodyAccess"), setting("SecRequestBodyLimitAction")) {
        (Some("Off"), _) => BodyMode::None,
        // ModSecurity: a longer body is never refused in DetectionOnly.
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
            timeouts: TIMEOUTS,
        },
        message_timeout: MESSAGE_TIMEOUT,
        failure_mode_allow: false,
        request: ProcessingPhases { headers: true, body, trailers: false },
        // fairway-waf turns bodies of responses on where a rule looks at them.
        response: ProcessingPhases { headers: true, body: BodyMode::None, trailers: false },
        allow_mode_override: true,
        mutation_rules: MutationRules::default(),
        max_buffered_body: limit.clamp(*HELD_BODY.start(), *HELD_BODY.end()),
        attributes: vec![
            attribute("source.address", TemplatePart::Address),
            attribute("destination.port", TemplatePart::Port),
            attribute("request.id", TemplatePart::RequestId),
            attribute("request.protocol", TemplatePart::Protocol),
            (Arc::from("waf.transaction_id"), transaction),
        ],
        metadata: vec![(METADATA.into(), metadata.to_string().into())],
        picks_endpoint: false,
    };
    Some((extension, backend))
}

/// That of requests which no Ingress serves, where the ConfigMap turns the firewall on.
pub(crate) fn of_nobody(context: &Context<'_>) -> Option<(Extension, BackendRef)> {
    let firewall = context.inputs.options.firewall.as_ref()?;
    let of_all = &context.defaults.firewall;
    let map = context.inputs.options.configmap.as_ref().filter(|_| of_all.enabled)?;
    extension(firewall, "ConfigMap", map, &of_all.rules(), request_id())
}

/// What rules do that show their requests to it.
pub(crate) fn phases(extension: Extension) -> Phases {
    Phases { extensions: vec![Arc::new(extension)], ..Phases::default() }
}

/// One directive a line: values, rules in their order, changes to rules. The engine is none of them: the mode says it. `fairway-waf` reads
/// them behind the recommended configuration.
fn directives(rules: &RuleText) -> String {
    let settings = rules.settings.iter().map(|(name, value)| match (*name, value.parse::<u32>()) {
        ("SecRequestBodyLimit", Ok(bytes)) => format!("{name} {}", bytes.min(*HELD_BODY.end())),
        ("SecResponseBodyLimit", Ok(bytes)) => format!("{name} {}", bytes.min(MAX_RESPONSE_BODY)),
        _ => format!("{name} {value}"),
    });
    // ModSecurity does not look at bodies of responses unless it is told to, and the recommended configuration tells it to.
    let access = "SecResponseBodyAccess";
    let implied = !rules.recommended && !rules.settings.contains_key(access);
    let implied = implied.then(|| format!("{access} Off"));
    let parts = rules.parts.iter().map(|part| match part {
        Part::Directive(directive) => directive.clone(),
        Part::CoreRuleSet => format!("Include {CORE_RULE_SET}"),
    });
    // Coraza changes no rule that was removed.
    let (removals, changes): (Vec<_>, Vec<_>) =
        rules.exceptions.iter().cloned().partition(|directive| directive.starts_with("SecRuleRemove"));
    let lines = implied.into_iter().chain(settings).chain(parts).chain(changes).chain(removals);
    lines.collect::<Vec<_>>().join("\n")
}
