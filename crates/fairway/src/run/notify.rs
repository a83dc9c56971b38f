//! What systemd is told of the process where it asks for that (sd_notify(3)): a unit of `Type=notify` is started when traffic is served.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::{env, io, process};

/// Traffic is served. A process that has `replaced` another one may have to become the main process of the unit.
pub(super) fn ready(replaced: bool) {
    match replaced {
        true => tell(&format!("READY=1\nMAINPID={}\n", process::id())),
        false => tell("READY=1\n"),
    }
}

/// The process was told to stop.
pub(super) fn stopping() {
    tell("STOPPING=1\n");
}

fn tell(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let send = || -> io::Result<usize> {
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&path)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)
    };
    if let Err(error) = send() {
        tracing::warn!(%error, "systemd cannot be told of the state of the process (NOTIFY_SOCKET)");
    }
}
