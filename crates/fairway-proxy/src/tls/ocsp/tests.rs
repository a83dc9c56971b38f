//! OCSP requests, accepted and stapled responses, and unresponsive responders.

use std::time::Duration;

use fairway_testkit::certificates::{KeyKind, Validity};
use fairway_testkit::ocsp::{DelegatedResponder, OcspAnswer, unsuccessful};
use fairway_testkit::{Authority, Backend, BackendResponse, Leaf, ScriptStep};
use proptest::prelude::*;

use super::fetch::{FetchError, FetchTimeouts, MAX_RESPONSE_BYTES, fetch};
use super::request::RequestError;
use super::response::{ResponseError, Status, Verdict, verify};
use super::*;

const TIMES: FetchTimeouts =
    FetchTimeouts { connect: Duration::from_secs(60), total: Duration::from_secs(60) };

fn authority() -> Authority {
    Authority::new("root").intermediate("issuer")
}

fn request_for(leaf: &Leaf) -> Option<Result<OcspRequest, RequestError>> {
    OcspRequest::for_chain(&leaf.chain_der)
}

fn inquiry(authority: &Authority, url: &str) -> OcspRequest {
    request_for(&authority.leaf_with_responder(&["a.test"], url)).unwrap().unwrap()
}

/// The verdict on a response now.
fn read(response: &[u8], inquiry: &OcspRequest) -> Result<Status, ResponseError> {
    verify(response, inquiry, UnixTime::now()).map(|verdict: Verdict| verdict.status)
}

#[test]
fn requests_need_a_responder_and_the_issuers_certificate() {
    let issuer = authority();
    let url = "http://ocsp.test/a?b";
    let request = inquiry(&issuer, url);
    assert_eq!(request.responder.to_string(), url);
    assert!(!request.must_staple);
    assert!(request_for(&issuer.leaf(&["a.test"])).is_none());
    for url in [
        "https://ocsp.test/",
        "ldap://ocsp.test/",
        "http://",
        "http://u:p@ocsp.test/",
        "nothing",
        "http:///a",
        "",
    ] {
        let found = request_for(&issuer.leaf_with_responder(&["a.test"], url));
        assert_eq!(found.unwrap().unwrap_err(), RequestError::Url, "{url}");
    }
    let long = format!("http://ocsp.test/{}", "a".repeat(1_024));
    assert_eq!(
        request_for(&issuer.leaf_with_responder(&["a.test"], &long)).unwrap().unwrap_err(),
        RequestError::Url
    );
    let mut alone = issuer.leaf_with_responder(&["a.test"], url);
    alone.chain_der.truncate(1);
    assert_eq!(request_for(&alone).unwrap().unwrap_err(), RequestError::Issuer);
}

#[test]
fn responses_signed_by_the_issuer_are_accepted() {
    let issuer = authority();
    let ocsp_request = inquiry(&issuer, "http://ocsp.test");
    let request = ocsp_request.encode();
    let good = OcspAnswer::good;
    for (answer, expected) in [
        (good(), Ok(Status::Good)),
        (OcspAnswer::revoked(), Ok(Status::Revoked)),
        (OcspAnswer::unknown(), Ok(Status::Unknown)),
        (OcspAnswer { other_serial: true, ..good() }, Err(ResponseError::OtherCertificate)),
        (OcspAnswer { next_update: Some(-1), ..good() }, Err(ResponseError::Expired)),
        (OcspAnswer { next_update: None, ..good() }, Err(ResponseError::NoNextUpdate)),
        (OcspAnswer { this_update: 240, ..good() }, Ok(Status::Good)),
        (OcspAnswer { this_update: 600, ..good() }, Err(ResponseError::NotYetValid)),
    ] {
        let response = issuer.ocsp_response(&request, &answer);
        assert_eq!(read(&response, &ocsp_request), expected, "{answer:?}");
        let extended = [&response[..], &[0]].concat();
        assert!(read(&extended, &ocsp_request).is_err(), "bytes behind it");
    }
    assert_eq!(read(&unsuccessful(3), &ocsp_request), Err(ResponseError::Unsuccessful(3)));
    let stranger = authority().ocsp_response(&request, &good());
    assert_eq!(
        read(&stranger, &ocsp_request),
        Err(ResponseError::Signature),
        "another key under the same name"
    );
}

#[test]
fn a_delegated_responder_needs_a_certificate_of_the_issuer_for_that_purpose() {
    let issuer = authority();
    let request = inquiry(&issuer, "http://ocsp.test");
    let say = |responder: &DelegatedResponder| {
        read(&responder.respond(&request.encode(), &OcspAnswer::good()), &request)
    };
    assert_eq!(say(&DelegatedResponder::new(&issuer, "delegate", true)), Ok(Status::Good));
    let signature = Err(ResponseError::Signature);
    assert_eq!(say(&DelegatedResponder::new(&issuer, "delegate", false)), signature, "for no purpose");
    assert_eq!(say(&DelegatedResponder::new(&authority(), "delegate", true)), signature, "of another issuer");
    let below = issuer.intermediate("below");
    assert_eq!(
        say(&DelegatedResponder::new(&below, "delegate", true)),
        signature,
        "not of the issuer itself"
    );
}

#[test]
fn no_changed_signed_byte_is_accepted() {
    let issuer = authority();
    let request = inquiry(&issuer, "http://ocsp.test");
    let response = issuer.ocsp_response(&request.encode(), &OcspAnswer::good());
    for at in 0..response.len() {
        assert!(read(&response[..at], &request).is_err(), "cut at {at}");
        for flip in [1, 0x80] {
            let mut changed = response.clone();
            changed[at] ^= flip;
            assert!(read(&changed, &request).is_err(), "byte {at} by {flip}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let request = inquiry(&authority(), "http://ocsp.test");
        prop_assert!(read(&bytes, &request).is_err());
    }

    #[test]
    fn changed_responses_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..16),
    ) {
        let issuer = authority();
        let request = inquiry(&issuer, "http://ocsp.test");
        let delegate = DelegatedResponder::new(&issuer, "delegate", true);
        let mut bytes = delegate.respond(&request.encode(), &OcspAnswer::good());
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        _ = read(&bytes, &request);
    }
}

#[test]
fn a_response_is_stapled_until_it_expires() {
    let leaf = authority().issue(&["a.test"], KeyKind::EcdsaP256, Validity::Current);
    let provider = fairway_testkit::certificates::provider();
    let key = rustls_pki_types::PrivateKeyDer::Pkcs8(leaf.key_der.clone_key());
    let plain = Arc::new(CertifiedKey::from_der(leaf.chain_der, key, &provider).unwrap());
    let staple = Staple::new(plain, oneshot::channel().0);
    let has = |at| staple.has_response(UnixTime::since_unix_epoch(Duration::from_secs(at)));
    assert!(!has(0));
    staple.set(vec![1], 100);
    assert!(has(0) && has(99) && !has(100));
    staple.withdraw();
    assert!(!has(0));
}

async fn fetched(response: BackendResponse) -> Result<Vec<u8>, FetchError> {
    let responder = Backend::http(move |_| response.clone()).await;
    let ocsp_request = inquiry(&authority(), &format!("http://{}/ocsp", responder.address()));
    let anywhere = AddressRule(Arc::new(|_| Ok(())));
    let body = fetch(&ocsp_request, &anywhere, TIMES).await.map(Vec::from);
    let [request] = &responder.requests()[..] else { panic!("one request") };
    assert_eq!((&*request.method, &*request.target), ("POST", "/ocsp"));
    assert_eq!(request.header("Content-Type"), Some("application/ocsp-request"));
    assert_eq!(request.header("Host"), Some(&*responder.address().to_string()));
    assert_eq!(request.body, ocsp_request.encode());
    body
}

#[tokio::test]
async fn only_200_responses_of_limited_size_are_accepted() {
    assert_eq!(fetched(BackendResponse::ok(b"response")).await.unwrap(), b"response");
    let limit = vec![0; MAX_RESPONSE_BYTES];
    assert_eq!(fetched(BackendResponse::ok(&limit)).await.unwrap(), limit);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(fetched(BackendResponse::ThenClose(chunked.into())).await.unwrap(), b"abc");
    for answer in [
        BackendResponse::ok(vec![0; MAX_RESPONSE_BYTES + 1]),
        BackendResponse::with_headers(302, &[("Location", "http://127.0.0.1/")], ""),
        BackendResponse::status(500, "no"),
        BackendResponse::ThenClose(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec()),
        BackendResponse::ThenClose(b"not HTTP".to_vec()),
        BackendResponse::ThenReset(Vec::new()),
    ] {
        let error = fetched(answer.clone()).await.expect_err(&format!("{answer:?}"));
        assert!(matches!(error, FetchError::Failed(_)), "{error}");
    }
}

#[tokio::test]
async fn an_unresponsive_responder_times_out() {
    let silent = Backend::scripted([ScriptStep::ReadHead, ScriptStep::Wait]).await;
    let request = inquiry(&authority(), &format!("http://{}/", silent.address()));
    let anywhere = AddressRule(Arc::new(|_| Ok(())));
    let times = FetchTimeouts { total: Duration::from_millis(50), ..TIMES };
    let error = fetch(&request, &anywhere, times).await.unwrap_err();
    assert!(matches!(error, FetchError::Failed(_)), "{error}");
}

#[tokio::test]
async fn a_responder_at_a_refused_address_gets_no_connection() {
    let responder = Backend::http(|_| BackendResponse::ok("")).await;
    let nowhere = AddressRule(Arc::new(|address| Err(format!("{address} is special"))));
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{}/", responder.address().port());
        let error = fetch(&inquiry(&authority(), &url), &nowhere, TIMES).await.unwrap_err();
        assert!(matches!(&error, FetchError::Refused(why) if why.ends_with("is special")), "{error}");
    }
    assert_eq!(responder.connection_count(), 0);
}
