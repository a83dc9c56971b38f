//! Where the two processes meet: a socket in the file system that only their user can reach.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::channel::Channel;

/// Processes that may wait for their turn.
const BACKLOG: i32 = 4;

/// How long a connect waits for a place among them.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Write permission of the group and of everybody.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A path at which a running process can be asked for its sockets.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    path: PathBuf,
}

/// A running process that can be asked.
#[derive(Debug)]
pub struct Listening {
    socket: Socket,
}

impl Rendezvous {
    /// At `path`, in a directory that no other user may change.
    ///
    /// # Errors
    /// The directory is another user's or others may write to it, the path is too long, or something else than a socket is there.
    pub fn at(path: &Path) -> io::Result<Self> {
        let refused = |problem: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        let path = std::path::absolute(path)?;
        let Some(directory) = path.parent().filter(|_| path.file_name().is_some()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not the path of a file"));
        };
        let found = fs::metadata(directory)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_dir() || (found.uid() != own && found.uid() != 0) {
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
                return refused("a file is there that is no socket".to_owned());
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let rendezvous = Self { path };
        // The longer one of both.
        SockAddr::unix(rendezvous.temporary())?;
        Ok(rendezvous)
    }

    /// Connects to the process that listens there; `None` where none does.
    pub(super) fn connect(&self) -> io::Result<Option<Channel>> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        match socket.connect(&SockAddr::unix(&self.path)?) {
            Ok(()) => Channel::new(socket).map(Some),
            // Nothing is there, or what a process left that has ended.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(busy()),
            Err(error) => Err(error),
        }
    }

    /// Listens there, in place of whoever did. Ask for a predecessor before: this replaces one that runs.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn listen(&self) -> io::Result<Listening> {
        let temporary = self.temporary();
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.bind(&SockAddr::unix(&temporary)?)?;
        // A connect fails until the mode is set and the socket listens. The path always has a socket: the old one, then this one.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))?;
        socket.listen(BACKLOG)?;
        fs::rename(&temporary, &self.path)?;
        Ok(Listening { socket })
    }

    fn temporary(&self) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(".new");
        path.into()
    }
}

/// A process listens and does not answer.
pub(super) fn busy() -> io::Error {
    let problem = "the running process does not answer: another process may be about to take its place";
    io::Error::new(io::ErrorKind::TimedOut, problem)
}

impl Listening {
    /// Waits for a process that wants the place of this one.
    pub(super) fn accept(&self) -> io::Result<Channel> {
        Channel::new(self.socket.accept()?.0)
    }
}
