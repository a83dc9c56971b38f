//! What comes of reading a policy. Reads nothing.

/// What a policy says, and what is worth knowing about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading<T> {
    /// What it says.
    pub said: T,
    /// What is not as its writer may think.
    pub warnings: Vec<Warning>,
}

/// Something that a policy says and that may not be meant so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    /// A stable name in kebab case.
    pub code: &'static str,
    /// The field, as in `spec.basicAuth.secretRef`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What happens now.
    pub consequence: &'static str,
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// The field, as in `spec.timeouts.idle`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Wrong {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}
