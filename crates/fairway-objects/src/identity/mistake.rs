//! What is wrong with what is written, or doubtful.

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field, as in `jwt.issuers[0].keys.url`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
    /// Whether an object that it names does not exist.
    pub is_missing: bool,
}

impl Mistake {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into(), is_missing: false }
    }
}

/// Something that may not be meant as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// A stable name in kebab case.
    pub code: &'static str,
    /// The field, as in `jwt.issuers[0].keys.ref`.
    pub field: String,
    /// What is doubtful.
    pub problem: String,
    /// What happens now.
    pub consequence: &'static str,
}

pub(super) type Checked<T> = Result<T, Mistake>;
