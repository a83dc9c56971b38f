//! The Unix socket where the two processes meet, which only their user can reach.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::channel::Channel;

/// Processes that may wait to be accepted.
const BACKLOG: i32 = 4;

/// How long a connect may wait to be accepted.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Write permission for the group and for others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A path where a running process offers its sockets.
#[derive(Clone, Debug)]
pub struct HandoverSocket {
    path: PathBuf,
}

/// A process listening for its successor.
#[derive(Debug)]
pub struct HandoverListener {
    socket: Socket,
}

impl HandoverSocket {
    /// At `path`, in a directory that no other user may write to.
    ///
    /// # Errors
    /// The directory belongs to another user or is writable by others, the path is too long, or it is not a socket.
    pub fn at(path: &Path) -> io::Result<Self> {
        let refused = |problem: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        let path = std::path::absolute(path)?;
        let Some(directory) = path.parent().filter(|_| path.file_name().is_some()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path does not name a file"));
        };
        let found = fs::metadata(directory)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?;
        let own_uid = rustix::process::geteuid().as_raw();
        if !found.is_dir() || (found.uid() != own_uid && found.uid() != 0) {
            return refused(format!("{} is not a directory of this user or of root", directory.display()));
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 {
            return refused(format!(
                "others may write to {}: put the socket in a directory that only its owner may write to",
                directory.display()
            ));
        }
        match fs::symlink_metadata(&path) {
            Ok(file) if !file.file_type().is_socket() => {
                return refused("the path exists and is not a socket".to_owned());
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let rendezvous = Self { path };
        // The longer of the two paths.
        SockAddr::unix(rendezvous.temporary())?;
        Ok(rendezvous)
    }

    /// Connects to the process that listens there; `None` if none does.
    pub(super) fn connect(&self) -> io::Result<Option<Channel>> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        match socket.connect(&SockAddr::unix(&self.path)?) {
            Ok(()) => Channel::new(socket).map(Some),
            // Nothing is there, or the process has ended.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(busy()),
            Err(error) => Err(error),
        }
    }

    /// Listens there, replacing any previous listener. Request the sockets of a predecessor first: this replaces one
    /// that is running.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn listen(&self) -> io::Result<HandoverListener> {
        let temporary = self.temporary();
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.bind(&SockAddr::unix(&temporary)?)?;
        // Connects fail until the mode is set and the socket listens. The path always has a socket: the old one, then
        // this one.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))?;
        socket.listen(BACKLOG)?;
        fs::rename(&temporary, &self.path)?;
        Ok(HandoverListener { socket })
    }

    fn temporary(&self) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(".new");
        path.into()
    }
}

/// A process listens but does not answer.
pub(super) fn busy() -> io::Error {
    let problem = "the running process does not answer: another process may be about to take its place";
    io::Error::new(io::ErrorKind::TimedOut, problem)
}

impl HandoverListener {
    /// Waits for a process that wants to replace this one.
    pub(super) fn accept(&self) -> io::Result<Channel> {
        Channel::new(self.socket.accept()?.0)
    }
}
