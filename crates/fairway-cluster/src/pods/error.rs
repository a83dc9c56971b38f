//! Why pods cannot be found, reached or read, in words that say what to do.

use crate::source::fault;

/// Why pods cannot be found, reached or read.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// The API server does not permit it.
    #[error("{action} is not permitted: it needs {needs} ({message})")]
    Forbidden {
        /// What was attempted.
        action: String,
        /// Which verb on which resource.
        needs: String,
        /// What the API server said.
        message: String,
    },
    /// It failed in another way.
    #[error("{action} failed: {problem}")]
    Failed {
        /// What was attempted.
        action: String,
        /// What went wrong.
        problem: String,
    },
    /// No pod has the labels.
    #[error("there is no pod with the labels {selector} in {place}; {advice}")]
    NotFound {
        /// The labels.
        selector: String,
        /// Where pods were listed.
        place: String,
        /// What to do.
        advice: &'static str,
    },
}

/// What is attempted, and the permission that it needs.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) action: String,
    pub(super) needs: String,
}

impl Attempt {
    /// What a failure of the attempt means.
    pub(super) fn failure(self, error: &kube::Error) -> PodError {
        let Self { action, needs } = self;
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                PodError::Forbidden { action, needs, message: status.message.clone() }
            }
            kube::Error::Api(status) => PodError::Failed {
                action,
                problem: format!("the API server answers {}: {}", status.code, status.message),
            },
            other => PodError::Failed { action, problem: fault::chain(other) },
        }
    }

    /// The attempt took too long.
    pub(super) fn timed_out(self) -> PodError {
        PodError::Failed {
            action: self.action,
            problem: "the API server has not answered in time".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn failure(code: u16, reason: &str) -> String {
        let attempt =
            Attempt { action: "listing pods".to_owned(), needs: "the verb list on pods".to_owned() };
        let status = Status::failure("User \"me\" cannot", reason).with_code(code);
        attempt.failure(&kube::Error::Api(Box::new(status))).to_string()
    }

    #[test]
    fn a_refusal_names_the_permission_that_is_missing() {
        assert_eq!(
            failure(403, "Forbidden"),
            "listing pods is not permitted: it needs the verb list on pods (User \"me\" cannot)"
        );
        assert_eq!(
            failure(500, "InternalError"),
            "listing pods failed: the API server answers 500: User \"me\" cannot"
        );
    }
}
