//! Texts of `explain` for the dashboard, and the explanation of requests that its users enter.

use anyhow::Result;
use fairway_control::View;
use fairway_control::admin::dashboard::{ConfigDescriber, ExplainedRequest};
use fairway_model::{Backend, FixedResponseReason, Match, Policy, RuleStep};
use fairway_routing::MatchVerdict;

use super::chain::chain;
use super::descriptions;
use super::request::RequestToExplain;
use super::served::ServedConfig;
use crate::check;

/// The texts of `explain`.
pub(crate) struct ExplainWords;

impl ConfigDescriber for ExplainWords {
    fn describe_match(&self, matched: &Match) -> String {
        descriptions::describe_match(matched)
    }

    fn describe_verdict(&self, verdict: &MatchVerdict) -> String {
        descriptions::describe_verdict(verdict)
    }

    fn describe_step(&self, step: RuleStep<'_>) -> String {
        descriptions::describe_step(step)
    }

    fn describe_policy(&self, policy: &Policy) -> String {
        descriptions::describe_policy(policy)
    }

    fn describe_backend(&self, backend: &Backend) -> String {
        let (spoken, balancing) = (
            descriptions::describe_backend_protocol(backend.protocol, backend.tls.as_deref()),
            descriptions::describe_balancing(backend.balancing),
        );
        let session = backend.session.as_ref().map(descriptions::describe_affinity).unwrap_or_default();
        format!("{spoken}, {balancing}{session}")
    }

    fn describe_reason(&self, reason: FixedResponseReason) -> String {
        descriptions::describe_response_reason(reason).to_owned()
    }

    fn explain(&self, view: &View, request: &ExplainedRequest) -> Result<String, String> {
        explain_served(view, request).map_err(|error| format!("{error:#}"))
    }
}

/// Explains a request with the configuration of this process.
fn explain_served(view: &View, request: &ExplainedRequest) -> Result<String> {
    let parsed = RequestToExplain::read(&request.url, &request.method, &request.headers)?;
    let lines = view.diagnostics().map(|it| (it.origin.clone(), check::line(it)));
    let served = ServedConfig { snapshot: view.outcome.snapshot.clone(), diagnostics: lines.collect() };
    let mut text = String::new();
    chain(&mut text, &parsed, &served);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use fairway_control::{Engine, Freshness};
    use fairway_objects::manifest;
    use fairway_objects::options::{Options, WithoutClass};
    use fairway_objects::resources::Change;

    use super::*;

    const SITE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  annotations:
    fairway.dev/request-headers: '{"set": {"Authorization": "hunter2-of-the-annotation"}}'
spec:
  rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
"#;

    fn view() -> View {
        let file: Arc<str> = "site.yaml".into();
        let mut changes = Vec::new();
        for section in manifest::sections(SITE) {
            if let Some(root) = manifest::parse(&section).unwrap() {
                let objects = manifest::read(&root, &file).objects;
                changes.extend(objects.into_iter().map(|(object, source)| Change::Set(object, Some(source))));
            }
        }
        let mut engine = Engine::new(Options { without_class: WithoutClass::Served, ..Options::default() });
        engine.update(changes, 1_767_225_600);
        View {
            outcome: engine.current().unwrap().clone(),
            source: Arc::default(),
            published: SystemTime::now(),
            delay: Duration::ZERO,
            freshness: Freshness::Current,
            retained: 1,
        }
    }

    fn explained(url: &str) -> Result<String, String> {
        let (url, method, headers) = (url.to_owned(), "GET".to_owned(), Vec::new());
        ExplainWords.explain(&view(), &ExplainedRequest { url, method, headers })
    }

    #[test]
    fn an_explanation_for_a_page_names_the_rule_and_hides_the_values_of_headers() {
        let text = explained("http://a.test/cart").unwrap();
        for part in ["Ingress shop/web", "<hidden>", "returns 503"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_request_that_no_client_can_send_is_refused() {
        assert!(explained("ftp://a.test/").unwrap_err().contains("only http and https"));
    }
}
