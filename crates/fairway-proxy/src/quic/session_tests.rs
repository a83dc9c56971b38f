//! Sessions in memory: fragmented ClientHellos, several names, and invalid hellos.

use std::cell::RefCell;

use fairway_testkit::Authority;
use rustls::pki_types::ServerName;
use rustls::quic::ClientConnection;

use super::*;

/// Serves each of these names with its own certificate, and records the requested names.
struct Names {
    known_names: Vec<(&'static str, Arc<rustls::ServerConfig>)>,
    requested: RefCell<Vec<Option<Box<str>>>>,
}

impl SelectTls for Names {
    fn select_tls(&self, hello: ClientHello) -> Result<Arc<rustls::ServerConfig>, TlsRefusal> {
        self.requested.borrow_mut().push(hello.name.clone());
        let known = self.known_names.iter().find(|(name, _)| hello.name.as_deref() == Some(name));
        known.map(|(_, config)| Arc::clone(config)).ok_or(tls_alert(AlertDescription::UnrecognisedName))
    }
}

fn names(names: &[&'static str]) -> Rc<Names> {
    let authority = Authority::new("names");
    let known = names.iter().map(|name| {
        let mut config = authority.leaf(&[name]).server_config(&["h3"]);
        config.max_early_data_size = 0;
        (*name, Arc::new(config))
    });
    Rc::new(Names { known_names: known.collect(), requested: RefCell::default() })
}

/// Transport parameters with one value.
fn parameters() -> TransportParameters {
    // `max_idle_timeout` (RFC 9000 §18.2).
    TransportParameters::read(Side::Client, &mut Cursor::new(&[1, 1, 30][..])).unwrap()
}

fn client(name: &str) -> ClientConnection {
    let mut config = fairway_testkit::certificates::unverified_client_config();
    config.alpn_protocols = vec![H3_PROTOCOL.to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    ClientConnection::new(Arc::new(config), Version::V1, name, vec![1, 1, 40]).unwrap()
}

fn session() -> Box<dyn Session> {
    let sessions = QuicTls::new(fairway_testkit::certificates::provider()).unwrap();
    Arc::new(sessions).start_session(QUIC_VERSION, &parameters())
}

/// Feeds a session bytes in fragments of this length.
fn read(
    session: &mut dyn Session,
    names: &Rc<Names>,
    bytes: &[u8],
    piece: usize,
) -> Result<(), TransportError> {
    for piece in bytes.chunks(piece) {
        with_selector(Rc::clone(names) as Rc<dyn SelectTls>, || session.read_handshake(piece))?;
    }
    Ok(())
}

#[test]
fn a_fragmented_hello_selects_once_by_its_name() {
    let names = names(&["a.test", "b.test"]);
    for (piece, name) in [(1, "a.test"), (3, "b.test"), (100, "b.test"), (usize::MAX, "a.test")] {
        let (mut client, mut session) = (client(name), session());
        let mut hello = Vec::new();
        assert!(client.write_hs(&mut hello).is_none());
        let (last, before) = hello.split_last().unwrap();
        read(&mut *session, &names, before, piece).unwrap();
        assert!(names.requested.borrow().is_empty(), "it is incomplete");
        assert!(session.is_handshaking() && session.transport_parameters().unwrap().is_none());
        assert!(session.write_handshake(&mut Vec::new()).is_none());
        read(&mut *session, &names, &[*last], 1).unwrap();
        assert_eq!(names.requested.take(), [Some(name.into())]);
        assert!(session.transport_parameters().unwrap().is_some());

        // ServerHello, then the other server messages; then the client's last one.
        let mut keys = 0;
        loop {
            let mut bytes = Vec::new();
            let changed = session.write_handshake(&mut bytes);
            keys += u32::from(changed.is_some());
            client.read_hs(&bytes).unwrap();
            if bytes.is_empty() && changed.is_none() {
                break;
            }
        }
        assert_eq!(keys, 2);
        let mut finished = Vec::new();
        while client.write_hs(&mut finished).is_some() {}
        assert!(session.is_handshaking() && session.handshake_data().is_none());
        read(&mut *session, &names, &finished, piece).unwrap();
        assert!(!session.is_handshaking());
        let data = session.handshake_data().unwrap().downcast::<HandshakeData>().unwrap();
        assert!(!data.resumed);
        assert_eq!((data.agreed.name.as_deref(), data.agreed.protocol), (Some(name), Some("h3")));
        assert_eq!(data.agreed.version, "TLSv1.3");
        assert!(session.next_1rtt_keys().is_some());
        assert!(session.early_crypto().is_none() && session.peer_identity().is_none());
    }
}

#[test]
fn a_refused_client_gets_the_error_of_the_selector() {
    let names = names(&["a.test"]);
    let (mut client, mut session) = (client("c.test"), session());
    let mut hello = Vec::new();
    client.write_hs(&mut hello);
    let refusal = read(&mut *session, &names, &hello, 50).unwrap_err();
    assert_eq!(u64::from(refusal.code), 0x170);
    assert!(session.write_handshake(&mut Vec::new()).is_none());
}

#[test]
fn anything_but_a_hello_is_refused_as_soon_as_possible() {
    let names = names(&["a.test"]);
    let too_long = [1, 0, 0x40, 0];
    let empty = [1, 0, 0, 0];
    for (bytes, description) in [
        (&[2][..], AlertDescription::UnexpectedMessage),
        (&[22, 3, 1], AlertDescription::UnexpectedMessage),
        (&too_long, AlertDescription::DecodeError),
        (&empty, AlertDescription::DecodeError),
    ] {
        let refusal = read(&mut *session(), &names, bytes, 1).unwrap_err();
        assert_eq!(u64::from(refusal.code), 0x100 + u64::from(u8::from(description)), "{bytes:?}");
    }
    assert!(names.requested.borrow().is_empty());
}

#[test]
fn a_hello_in_middlebox_compatibility_mode_is_a_protocol_violation() {
    let names = names(&["a.test"]);
    let (mut client, mut session) = (client("a.test"), session());
    let mut hello = Vec::new();
    client.write_hs(&mut hello);
    // The session id follows the message header, version and random (RFC 9001 §8.4).
    let (length_at, id) = (4 + 2 + 32, [32_u8; 32]);
    assert_eq!(std::mem::replace(&mut hello[length_at], id.len() as u8), 0);
    hello.splice(length_at + 1..length_at + 1, id);
    let length = (hello.len() - 4) as u32;
    hello[1..4].copy_from_slice(&length.to_be_bytes()[1..]);
    let refusal = read(&mut *session, &names, &hello, 100).unwrap_err();
    assert_eq!(refusal.code, TransportErrorCode::PROTOCOL_VIOLATION);
    assert!(names.requested.borrow().is_empty());
}

#[test]
fn a_session_without_a_selector_fails() {
    let (mut client, mut session) = (client("a.test"), session());
    let mut hello = Vec::new();
    client.write_hs(&mut hello);
    let failure = session.read_handshake(&hello).unwrap_err();
    assert_eq!(failure.code, TransportErrorCode::INTERNAL_ERROR);
}

#[test]
fn without_tls_1_3_there_is_no_quic() {
    let authority = Authority::new("old");
    let leaf = authority.leaf(&["a.test"]);
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(leaf.key_der.clone_key());
    let config = rustls::ServerConfig::builder_with_provider(fairway_testkit::certificates::provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(leaf.chain_der.clone(), key)
        .unwrap();
    let names =
        Rc::new(Names { known_names: vec![("a.test", Arc::new(config))], requested: RefCell::default() });
    let (mut client, mut session) = (client("a.test"), session());
    let mut hello = Vec::new();
    client.write_hs(&mut hello);
    let refusal = read(&mut *session, &names, &hello, 500).unwrap_err();
    assert_eq!(u64::from(refusal.code), 0x100 + u64::from(u8::from(AlertDescription::ProtocolVersion)));
}
