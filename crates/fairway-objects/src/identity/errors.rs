//! Errors and warnings about identity settings.

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFieldError {
    /// The field, as in `jwt.issuers[0].keys.url`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
    /// Whether a referenced object does not exist.
    pub is_missing: bool,
}

impl IdentityFieldError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into(), is_missing: false }
    }
}

/// A setting that may be unintended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityWarning {
    /// A stable identifier in kebab case.
    pub code: &'static str,
    /// The field, as in `jwt.issuers[0].keys.ref`.
    pub field: String,
    /// What is suspicious.
    pub problem: String,
    /// The consequence.
    pub consequence: &'static str,
}

pub(super) type IdentityResult<T> = Result<T, IdentityFieldError>;
