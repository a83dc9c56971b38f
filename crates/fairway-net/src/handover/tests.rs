//! Both sides in one process.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use socket2::{Domain, Socket, Type};

use super::channel::Channel;
use super::message::Message;
use super::*;
use crate::inherited::InheritedSockets;

/// A directory that only this user may write to; removed on drop.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fairway-handover-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(path: &Path) -> String {
    HandoverSocket::at(path).unwrap_err().to_string()
}

fn pair() -> (Channel, Channel) {
    let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    (Channel::new(one).unwrap(), Channel::new(other).unwrap())
}

#[test]
fn every_socket_arrives_and_the_old_process_learns_that_the_new_one_is_ready() {
    let directory = Directory::new();
    let rendezvous = HandoverSocket::at(&directory.socket()).unwrap();
    assert!(Predecessor::request_sockets(&rendezvous).unwrap().is_none(), "nobody is there");
    let listening = rendezvous.listen().unwrap();
    let mode = fs::metadata(directory.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // More than fit into one message.
    let sockets: Vec<_> = (0..150).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let old = thread::spawn(move || {
        let successor = listening.successor().unwrap();
        let sockets: Vec<_> = sockets.into_iter().map(OwnedFd::from).collect();
        successor.give(&sockets).unwrap();
        successor.wait_until_ready().unwrap();
    });
    let (predecessor, sockets) = Predecessor::request_sockets(&rendezvous).unwrap().unwrap();
    assert_eq!(predecessor.id(), i32::try_from(std::process::id()).unwrap());
    let mut inherited = InheritedSockets::default();
    inherited.add(sockets).unwrap();
    assert!(addresses.iter().all(|address| inherited.take(*address).len() == 1));
    predecessor.replace().unwrap();
    old.join().unwrap();
}

#[test]
fn the_old_process_continues_when_the_new_one_ends() {
    let directory = Directory::new();
    let rendezvous = HandoverSocket::at(&directory.socket()).unwrap();
    let listening = rendezvous.listen().unwrap();
    let old = thread::spawn(move || {
        let successor = listening.successor().unwrap();
        successor.give(&[]).unwrap();
        successor.wait_until_ready().unwrap_err().kind()
    });
    let (predecessor, _) = Predecessor::request_sockets(&rendezvous).unwrap().unwrap();
    drop(predecessor);
    assert_eq!(old.join().unwrap(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_reason_for_a_refusal_arrives() {
    let directory = Directory::new();
    let rendezvous = HandoverSocket::at(&directory.socket()).unwrap();
    let listening = rendezvous.listen().unwrap();
    let old = thread::spawn(move || listening.successor().unwrap().refuse("it drains"));
    let error = Predecessor::request_sockets(&rendezvous).unwrap_err().to_string();
    assert_eq!(error, "the running process refuses: it drains");
    old.join().unwrap();
}

#[test]
fn who_speaks_something_else_gets_no_socket() {
    let directory = Directory::new();
    let rendezvous = HandoverSocket::at(&directory.socket()).unwrap();
    let listening = rendezvous.listen().unwrap();
    let old = thread::spawn(move || listening.successor().unwrap_err().to_string());
    let channel = rendezvous.connect().unwrap().unwrap();
    channel.send(&Message::Ready, &[]).unwrap();
    assert_eq!(old.join().unwrap(), "an unexpected message");
}

#[test]
fn a_file_that_a_process_left_is_replaced_and_another_kind_of_file_is_not() {
    let directory = Directory::new();
    let rendezvous = HandoverSocket::at(&directory.socket()).unwrap();
    drop(rendezvous.listen().unwrap());
    assert!(directory.socket().exists() && Predecessor::request_sockets(&rendezvous).unwrap().is_none());
    // Also the leftover of a process that ended before it had renamed it.
    fs::write(directory.0.join("socket.new"), "").unwrap();
    let listening = rendezvous.listen().unwrap();
    assert!(rendezvous.connect().unwrap().is_some());
    drop(listening);
    fs::remove_file(directory.socket()).unwrap();
    fs::write(directory.socket(), "precious").unwrap();
    assert_eq!(refusal(&directory.socket()), "the path exists and is not a socket");
}

#[test]
fn the_directory_must_be_closed_to_others() {
    let directory = Directory::new();
    for mode in [0o770, 0o707, 0o1777] {
        fs::set_permissions(&directory.0, Permissions::from_mode(mode)).unwrap();
        let problem = refusal(&directory.socket());
        assert!(problem.starts_with("others may write to "), "{problem}");
    }
    fs::set_permissions(&directory.0, Permissions::from_mode(0o755)).unwrap();
    assert!(HandoverSocket::at(&directory.socket()).is_ok());
    assert!(refusal(&directory.0.join("none/socket")).contains("none"));
    assert!(HandoverSocket::at(&directory.0.join("s".repeat(100))).is_err(), "longer than an address may be");
    assert!(HandoverSocket::at(Path::new("/")).is_err());
}

#[test]
fn descriptors_come_only_with_the_message_that_announces_them() {
    let (one, other) = pair();
    let file = fs::File::open("/dev/null").unwrap();
    one.send(&Message::Hello, &[file.as_fd()]).unwrap();
    let error = other.receive(None).unwrap_err().to_string();
    assert_eq!(error, "a message announces 0 descriptors and has 1");
    one.send(&Message::Sockets(2), &[file.as_fd()]).unwrap();
    let error = other.receive(None).unwrap_err().to_string();
    assert_eq!(error, "a message announces 2 descriptors and has 1");
    let many = vec![file.as_fd(); 65];
    assert!(one.send(&Message::Sockets(64), &many).is_err());
    // A sender that ignores the limit.
    one.send(&Message::Sockets(1), &[file.as_fd()]).unwrap();
    assert_eq!(other.receive(None).unwrap().1.len(), 1);
}

#[test]
fn an_oversized_or_incomplete_message_is_not_read() {
    let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    let other = Channel::new(other).unwrap();
    for (bytes, part) in [
        (vec![b'x'; 100_000], "longer than"),
        (b"fairway-handover 1 hel".to_vec(), "cut off"),
        (b"fairway-handover 9 hello\n".to_vec(), "version 9"),
    ] {
        one.send(&bytes).unwrap();
        let error = other.receive(None).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    drop(one);
    assert_eq!(other.receive(None).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}
