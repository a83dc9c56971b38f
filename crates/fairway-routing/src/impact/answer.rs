//! A response of Fairway's own.

use fairway_model::{Answer, AnswerReason};

/// A response of Fairway's own.
pub(super) struct OwnAnswer {
    pub(super) status: u16,
    /// Where it leads.
    pub(super) location: Option<String>,
    /// Whether it says that there is no route.
    pub(super) is_no_route: bool,
}

impl OwnAnswer {
    pub(super) fn plain(status: u16) -> Self {
        Self { status, location: None, is_no_route: false }
    }

    pub(super) fn redirect(status: u16, location: String) -> Self {
        Self { status, location: Some(location), is_no_route: false }
    }

    pub(super) fn no_route() -> Self {
        Self { status: 404, location: None, is_no_route: true }
    }

    /// Of a rule that answers itself.
    pub(super) fn of_rule(answer: &Answer) -> Self {
        match answer.reason {
            AnswerReason::NoRoute if answer.status != 404 => Self::plain(answer.status),
            AnswerReason::NoRoute | AnswerReason::Refused => Self::no_route(),
            AnswerReason::ProtectionUnavailable | AnswerReason::MissingReference => Self::plain(503),
            AnswerReason::ExtensionUnavailable => Self::plain(500),
        }
    }

    /// Whether clients see no difference.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.status == other.status && self.location == other.location
    }

    /// In a few words.
    pub(super) fn words(&self) -> String {
        match &self.location {
            Some(location) => format!("{} to {location}", self.status),
            None if self.is_no_route => "404, no route".to_owned(),
            None => self.status.to_string(),
        }
    }
}
