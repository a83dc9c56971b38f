//! A write that each of two permissions allows: the request that was not refused last time is sent first. Owns no request.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Error;

use super::permission::is_ending;

/// Which of the two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The one that Fairway's own manifests permit.
    Own,
    /// The one that the manifests of ingress-nginx permit.
    IngressNginx,
}

/// Which request is sent first. It starts with [`Way::Own`].
#[derive(Debug, Default)]
pub(crate) struct Alternative {
    ingress_nginx: AtomicBool,
}

impl Alternative {
    /// Sends the request that was permitted last, and if it is refused, the other one. Gives the refusal of the first if
    /// both are refused.
    pub(crate) async fn send<T, F>(&self, request: impl Fn(Way) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = self.first();
        let answer = request(first).await;
        if !is_refused(&answer) {
            return answer;
        }
        let other = first.other();
        let second = request(other).await;
        if is_refused(&second) {
            return answer;
        }
        // An error without an answer of the API server shows nothing about permissions.
        if matches!(second, Ok(_) | Err(Error::Api(_))) {
            self.ingress_nginx.store(other == Way::IngressNginx, Ordering::Relaxed);
        }
        second
    }

    fn first(&self) -> Way {
        if self.ingress_nginx.load(Ordering::Relaxed) { Way::IngressNginx } else { Way::Own }
    }
}

impl Way {
    fn other(self) -> Self {
        match self {
            Self::Own => Self::IngressNginx,
            Self::IngressNginx => Self::Own,
        }
    }
}

/// Whether a permission is missing; a namespace that is being removed refuses everybody.
fn is_refused<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Api(status)) if status.is_forbidden() && !is_ending(status))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kube::core::Status;

    use super::*;

    fn failure(reason: &str, code: u16) -> Error {
        Error::Api(Status::failure(reason, reason).with_code(code).boxed())
    }

    /// Sends one request; gives which ways were tried and how it ended.
    async fn sent(it: &Alternative, answer: impl Fn(Way) -> Result<(), Error>) -> (Vec<Way>, Option<u16>) {
        let tried = Mutex::new(Vec::new());
        let ended = it.send(|way| {
            tried.lock().unwrap().push(way);
            std::future::ready(answer(way))
        });
        let code = match ended.await {
            Ok(()) => None,
            Err(Error::Api(status)) => Some(status.code),
            Err(error) => panic!("{error}"),
        };
        (tried.into_inner().unwrap(), code)
    }

    fn permitted(only: Way) -> impl Fn(Way) -> Result<(), Error> {
        move |way| if way == only { Ok(()) } else { Err(failure("Forbidden", 403)) }
    }

    #[tokio::test]
    async fn the_request_that_is_permitted_is_remembered_and_the_other_one_is_tried_again_when_it_is_refused()
    {
        let it = Alternative::default();
        assert_eq!(sent(&it, permitted(Way::Own)).await, (vec![Way::Own], None));
        let both = vec![Way::Own, Way::IngressNginx];
        assert_eq!(sent(&it, permitted(Way::IngressNginx)).await, (both, None));
        assert_eq!(sent(&it, permitted(Way::IngressNginx)).await, (vec![Way::IngressNginx], None));
        let both = vec![Way::IngressNginx, Way::Own];
        assert_eq!(sent(&it, permitted(Way::Own)).await, (both, None));
        assert_eq!(sent(&it, permitted(Way::Own)).await, (vec![Way::Own], None));
    }

    #[tokio::test]
    async fn nothing_is_remembered_when_both_are_refused_or_the_first_fails_otherwise() {
        let it = Alternative::default();
        for _ in 0..2 {
            let refused = sent(&it, |_| Err(failure("Forbidden", 403))).await;
            assert_eq!(refused, (vec![Way::Own, Way::IngressNginx], Some(403)));
            let conflict = sent(&it, |_| Err(failure("Conflict", 409))).await;
            assert_eq!(conflict, (vec![Way::Own], Some(409)));
        }
    }
}
