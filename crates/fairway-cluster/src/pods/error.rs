//! Why pods cannot be found, reached or read; the message says what to do.

use crate::source::fault;

/// Why pods cannot be found, reached or read.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// The API server forbids it.
    #[error("{action} is not permitted: it needs {requirement} ({message})")]
    Forbidden {
        /// What was attempted.
        action: String,
        /// Which verb on which resource.
        requirement: String,
        /// The response of the API server.
        message: String,
    },
    /// It failed for another reason.
    #[error("{action} failed: {problem}")]
    Failed {
        /// What was attempted.
        action: String,
        /// What went wrong.
        problem: String,
    },
    /// No pod has the labels.
    #[error("there is no pod with the labels {selector} in {location}; {advice}")]
    NotFound {
        /// The labels.
        selector: String,
        /// Where pods were listed.
        location: String,
        /// What to do.
        advice: &'static str,
    },
}

/// An operation and the permission it needs.
#[derive(Debug)]
pub(super) struct PodOperation {
    pub(super) action: String,
    pub(super) requirement: String,
}

impl PodOperation {
    /// The error that a failure of the operation means.
    pub(super) fn failure(self, error: &kube::Error) -> PodError {
        let Self { action, requirement: needs } = self;
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                PodError::Forbidden { action, requirement: needs, message: status.message.clone() }
            }
            kube::Error::Api(status) => PodError::Failed {
                action,
                problem: format!("the API server answers {}: {}", status.code, status.message),
            },
            other => PodError::Failed { action, problem: fault::error_chain(other) },
        }
    }

    /// The operation timed out.
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
        let attempt = PodOperation {
            action: "listing pods".to_owned(),
            requirement: "the verb list on pods".to_owned(),
        };
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
