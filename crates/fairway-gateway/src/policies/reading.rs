//! Results of reading a policy.

/// A policy's content, with warnings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyReading<T> {
    /// The content.
    pub value: T,
    /// Settings that may not mean what the author intended.
    pub warnings: Vec<PolicyWarning>,
}

/// A setting that may not mean what the author intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyWarning {
    /// A stable code in kebab case.
    pub code: &'static str,
    /// The field, such as `spec.basicAuth.secretRef`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// The consequence.
    pub consequence: &'static str,
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyError {
    /// The field, as in `spec.timeouts.idle`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl PolicyError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}
