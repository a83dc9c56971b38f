//! What a configuration does with a request of which only some is known.

use fairway_model::{Action, AnswerReason, Extension, Guard, Reference};

use super::answer::OwnAnswer;
use super::arrival::{Place, Side};
use super::candidates::Found;
use super::forwarded::Forwarded;
use super::guards::{Asked, Ruling, ruling};
use super::known::{KnownClient, Prepared};
use super::verdict::Unknown;

/// What becomes of a request.
pub(super) struct Treatment<'s> {
    /// What is asked about the request, and says something that is not known, in its order. What follows holds if all let it pass as it
    /// is.
    pub(super) unknown: Vec<(Asker<'s>, Unknown)>,
    pub(super) outcome: Outcome<'s>,
    /// The rule that serves it.
    pub(super) found: Option<Found<'s>>,
}

/// What is asked about a request.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Asker<'s> {
    Guard(&'s Guard),
    Extension(&'s Extension),
}

/// How it ends.
pub(super) enum Outcome<'s> {
    /// No listener takes it.
    NoListener,
    /// Its TLS does not end here.
    PassedThrough,
    /// Fairway answers it.
    Answered(OwnAnswer),
    /// It is forwarded.
    Forwarded(Forwarded<'s>),
    /// The rule cannot be compiled as it is shown.
    Hidden,
    /// The rule refers to an object that was not read.
    Unreferenced,
}

impl<'s> Treatment<'s> {
    /// Of a request that nothing is asked about.
    pub(super) fn without_rule(outcome: Outcome<'s>) -> Self {
        Self { unknown: Vec::new(), outcome, found: None }
    }

    /// What the rule does with a request that came to `place`.
    pub(super) fn of(
        side: &Side<'s>,
        place: &Place<'s>,
        request: &Prepared<'_>,
        client: KnownClient,
        found: Option<Found<'s>>,
    ) -> Self {
        let Some(to) = found else {
            return Self::without_rule(Outcome::Answered(OwnAnswer::no_route()));
        };
        let rule = to.rule.rule();
        let (guards, steps) = (&rule.phases.guards, &to.rule.steps().guards);
        if guards.len() != steps.len() {
            return Self { unknown: Vec::new(), outcome: Outcome::Hidden, found };
        }
        let asked = Asked { place, request, client, found: to };
        let mut unknown = Vec::new();
        for (guard, step) in guards.iter().zip(steps) {
            match ruling(guard, step, &asked) {
                Ruling::Pass => {}
                Ruling::Unknown(by) => unknown.push((Asker::Guard(guard), by)),
                Ruling::Answered(answer) => {
                    return Self { unknown, outcome: Outcome::Answered(answer), found };
                }
            }
        }
        let outcome = match &rule.action {
            _ if side.lacks_objects && refers_to_nothing(&rule.action) => Outcome::Unreferenced,
            Action::Answer(answer) => Outcome::Answered(OwnAnswer::of_rule(answer)),
            Action::Forward(shares) => {
                let extensions = rule.phases.extensions.iter();
                unknown.extend(extensions.map(|it| (Asker::Extension(it), Unknown::Extension)));
                match Forwarded::of(side, request, to, shares) {
                    Some(forwarded) => Outcome::Forwarded(forwarded),
                    None => Outcome::Answered(OwnAnswer::plain(500)),
                }
            }
        };
        Self { unknown, outcome, found }
    }

    /// Whether it asks the same, which says something that is not known.
    pub(super) fn asks(&self, asker: Asker<'_>) -> bool {
        self.unknown.iter().any(|(own, _)| *own == asker)
    }

    /// In a few words.
    pub(super) fn words(&self) -> String {
        match &self.outcome {
            Outcome::NoListener => "no listener".to_owned(),
            Outcome::PassedThrough => "TLS is passed through".to_owned(),
            Outcome::Hidden => "a rule that cannot be compiled".to_owned(),
            Outcome::Unreferenced => "a rule without an object that it refers to".to_owned(),
            Outcome::Answered(answer) => answer.words(),
            Outcome::Forwarded(forwarded) => format!("{} at {}", forwarded.services(), forwarded.path),
        }
    }
}

/// Whether it would be another action with an object that is not there.
fn refers_to_nothing(action: &Action) -> bool {
    match action {
        Action::Answer(answer) => {
            let reasons = [
                AnswerReason::MissingReference,
                AnswerReason::ProtectionUnavailable,
                AnswerReason::ExtensionUnavailable,
            ];
            reasons.contains(&answer.reason)
        }
        Action::Forward(shares) => shares.iter().any(|share| share.reference == Reference::Invalid),
    }
}
