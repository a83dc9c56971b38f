//! What a configuration does with a partly known request.

use fairway_model::{Action, Extension, FixedResponseReason, Guard, ReferenceStatus};

use super::candidates::ServingRule;
use super::configuration::{ComparedConfig, HttpListener};
use super::forwarded::Forwarded;
use super::guards::{GuardInput, GuardResult, ruling};
use super::own_response::LocalResponse;
use super::recorded_request::{KnownClient, RequestPaths};
use super::verdict::Unknown;

/// What happens to a request.
pub(super) struct Treatment<'s> {
    /// The steps whose result is unknown, in order. The outcome holds if all of them let the request pass unchanged.
    pub(super) unknown: Vec<(UncertainStep<'s>, Unknown)>,
    pub(super) outcome: TreatmentOutcome<'s>,
    /// The rule that serves it.
    pub(super) found: Option<ServingRule<'s>>,
}

/// A step whose result may be unknown.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum UncertainStep<'s> {
    Guard(&'s Guard),
    Extension(&'s Extension),
}

/// The outcome for a request.
pub(super) enum TreatmentOutcome<'s> {
    /// No listener receives it.
    NoListener,
    /// Its TLS connection is passed through.
    PassedThrough,
    /// Fairway responds itself.
    Answered(LocalResponse),
    /// It is forwarded.
    Forwarded(Forwarded<'s>),
    /// The rule cannot be compiled from the redacted configuration.
    Hidden,
    /// The rule refers to an object that was not read.
    Unreferenced,
}

impl<'s> Treatment<'s> {
    /// For a request without a rule.
    pub(super) fn without_rule(outcome: TreatmentOutcome<'s>) -> Self {
        Self { unknown: Vec::new(), outcome, found: None }
    }

    /// What the rule does with a request received at `place`.
    pub(super) fn for_request(
        side: &ComparedConfig<'s>,
        place: &HttpListener<'s>,
        request: &RequestPaths<'_>,
        client: KnownClient,
        found: Option<ServingRule<'s>>,
    ) -> Self {
        let Some(to) = found else {
            return Self::without_rule(TreatmentOutcome::Answered(LocalResponse::no_route()));
        };
        let rule = to.rule.rule();
        let (guards, steps) = (&rule.phases.guards, &to.rule.steps().guards);
        if guards.len() != steps.len() {
            return Self { unknown: Vec::new(), outcome: TreatmentOutcome::Hidden, found };
        }
        let input = GuardInput { listener: place, request, client, found: to };
        let mut unknown = Vec::new();
        for (guard, step) in guards.iter().zip(steps) {
            match ruling(guard, step, &input) {
                GuardResult::Pass => {}
                GuardResult::Unknown(by) => unknown.push((UncertainStep::Guard(guard), by)),
                GuardResult::Answered(answer) => {
                    return Self { unknown, outcome: TreatmentOutcome::Answered(answer), found };
                }
            }
        }
        let outcome = match &rule.action {
            _ if side.lacks_objects && refers_to_nothing(&rule.action) => TreatmentOutcome::Unreferenced,
            Action::FixedResponse(answer) => TreatmentOutcome::Answered(LocalResponse::of_rule(answer)),
            Action::Forward(shares) => {
                let extensions = rule.phases.extensions.iter();
                unknown.extend(extensions.map(|it| (UncertainStep::Extension(it), Unknown::Extension)));
                match Forwarded::new(side, request, to, shares) {
                    Some(forwarded) => TreatmentOutcome::Forwarded(forwarded),
                    None => TreatmentOutcome::Answered(LocalResponse::plain(500)),
                }
            }
        };
        Self { unknown, outcome, found }
    }

    /// Whether the result of the same step is unknown.
    pub(super) fn is_uncertain(&self, asker: UncertainStep<'_>) -> bool {
        self.unknown.iter().any(|(own, _)| *own == asker)
    }

    /// A short description.
    pub(super) fn words(&self) -> String {
        match &self.outcome {
            TreatmentOutcome::NoListener => "no listener".to_owned(),
            TreatmentOutcome::PassedThrough => "TLS is passed through".to_owned(),
            TreatmentOutcome::Hidden => "a rule that cannot be compiled".to_owned(),
            TreatmentOutcome::Unreferenced => "a rule that refers to a missing object".to_owned(),
            TreatmentOutcome::Answered(answer) => answer.words(),
            TreatmentOutcome::Forwarded(forwarded) => {
                format!("{} at {}", forwarded.services(), forwarded.path)
            }
        }
    }
}

/// Whether the action would differ if an object were present.
fn refers_to_nothing(action: &Action) -> bool {
    match action {
        Action::FixedResponse(answer) => {
            let reasons = [
                FixedResponseReason::MissingReference,
                FixedResponseReason::ProtectionUnavailable,
                FixedResponseReason::ExtensionUnavailable,
            ];
            reasons.contains(&answer.reason)
        }
        Action::Forward(shares) => shares.iter().any(|share| share.reference == ReferenceStatus::Invalid),
    }
}
