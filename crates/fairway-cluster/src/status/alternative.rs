//! A write that either of two permissions allows: tries first the request that was last permitted. Builds no request itself.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::Error;

use super::permission::is_namespace_terminating;

/// Which of the two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestForm {
    /// The one that Fairway's manifests permit.
    Fairway,
    /// The one that the manifests of ingress-nginx permit.
    IngressNginx,
}

/// Which request is tried first, initially [`RequestForm::Fairway`].
#[derive(Debug, Default)]
pub(crate) struct AlternativeRequests {
    ingress_nginx: AtomicBool,
}

impl AlternativeRequests {
    /// Sends the request that was last permitted and, if it is refused, the other one. If both are refused, returns the error of
    /// the first.
    pub(crate) async fn send<T, F>(&self, request: impl Fn(RequestForm) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = self.first();
        let reply = request(first).await;
        if !is_refused(&reply) {
            return reply;
        }
        let other = first.opposite();
        let second = request(other).await;
        if is_refused(&second) {
            return reply;
        }
        // An error that is not a response of the API server says nothing about permissions.
        if matches!(second, Ok(_) | Err(Error::Api(_))) {
            self.ingress_nginx.store(other == RequestForm::IngressNginx, Ordering::Relaxed);
        }
        second
    }

    fn first(&self) -> RequestForm {
        if self.ingress_nginx.load(Ordering::Relaxed) {
            RequestForm::IngressNginx
        } else {
            RequestForm::Fairway
        }
    }
}

impl RequestForm {
    fn opposite(self) -> Self {
        match self {
            Self::Fairway => Self::IngressNginx,
            Self::IngressNginx => Self::Fairway,
        }
    }
}

/// Whether a permission is missing; a namespace that is being deleted refuses everyone.
fn is_refused<T>(response: &Result<T, Error>) -> bool {
    matches!(response, Err(Error::Api(status)) if status.is_forbidden() && !is_namespace_terminating(status))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kube::core::Status;

    use super::*;

    fn failure(reason: &str, code: u16) -> Error {
        Error::Api(Status::failure(reason, reason).with_code(code).boxed())
    }

    /// Sends once; returns the request forms that were tried and the error code, if any.
    async fn send_once(
        it: &AlternativeRequests,
        answer: impl Fn(RequestForm) -> Result<(), Error>,
    ) -> (Vec<RequestForm>, Option<u16>) {
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

    fn permitted(only: RequestForm) -> impl Fn(RequestForm) -> Result<(), Error> {
        move |way| if way == only { Ok(()) } else { Err(failure("Forbidden", 403)) }
    }

    #[tokio::test]
    async fn the_permitted_request_is_remembered_until_it_is_refused() {
        let it = AlternativeRequests::default();
        assert_eq!(send_once(&it, permitted(RequestForm::Fairway)).await, (vec![RequestForm::Fairway], None));
        let both = vec![RequestForm::Fairway, RequestForm::IngressNginx];
        assert_eq!(send_once(&it, permitted(RequestForm::IngressNginx)).await, (both, None));
        assert_eq!(
            send_once(&it, permitted(RequestForm::IngressNginx)).await,
            (vec![RequestForm::IngressNginx], None)
        );
        let both = vec![RequestForm::IngressNginx, RequestForm::Fairway];
        assert_eq!(send_once(&it, permitted(RequestForm::Fairway)).await, (both, None));
        assert_eq!(send_once(&it, permitted(RequestForm::Fairway)).await, (vec![RequestForm::Fairway], None));
    }

    #[tokio::test]
    async fn nothing_is_remembered_if_both_requests_are_refused_or_the_first_fails_otherwise() {
        let it = AlternativeRequests::default();
        for _ in 0..2 {
            let refused = send_once(&it, |_| Err(failure("Forbidden", 403))).await;
            assert_eq!(refused, (vec![RequestForm::Fairway, RequestForm::IngressNginx], Some(403)));
            let conflict = send_once(&it, |_| Err(failure("Conflict", 409))).await;
            assert_eq!(conflict, (vec![RequestForm::Fairway], Some(409)));
        }
    }
}
