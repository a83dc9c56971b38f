//! Sockets passed by the service manager in `LISTEN_FDS` (sd_listen_fds(3)).

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use crate::sys::take_passed;

/// The number of the first descriptor (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Maximum number of sockets.
const MAX_SOCKETS: u16 = 1_024;

/// The sockets that the service manager passed to this process; none if it passed none, or meant another process. Call
/// it once, before anything is opened.
///
/// # Errors
/// The environment contradicts sd_listen_fds(3), or a descriptor is not open.
pub fn passed_sockets() -> io::Result<Vec<OwnedFd>> {
    let variable = |name| std::env::var_os(name);
    let (pid, count) = (variable("LISTEN_PID"), variable("LISTEN_FDS"));
    match count_of(pid.as_deref(), count.as_deref(), std::process::id())? {
        0 => Ok(Vec::new()),
        count => take_passed(FIRST, count),
    }
}

/// The number of sockets for process `own`.
fn count_of(pid: Option<&OsStr>, count: Option<&OsStr>, own_pid: u32) -> io::Result<u16> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0) };
    let invalid_input = |problem: &str| io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned());
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<u32>().ok());
    // Child processes inherit the variables of their parent, which are not meant for them.
    if number(pid).ok_or_else(|| invalid_input("LISTEN_PID is not a number"))? != own_pid {
        return Ok(0);
    }
    let count = number(count).ok_or_else(|| invalid_input("LISTEN_FDS is not a number"))?;
    let few = u16::try_from(count).ok().filter(|count| *count <= MAX_SOCKETS);
    few.ok_or_else(|| invalid_input(&format!("LISTEN_FDS is {count}; the maximum is {MAX_SOCKETS}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pid: Option<&str>, count: Option<&str>) -> Result<u16, String> {
        count_of(pid.map(OsStr::new), count.map(OsStr::new), 7).map_err(|error| error.to_string())
    }

    #[test]
    fn sockets_count_only_for_their_intended_process() {
        assert_eq!(count(None, None), Ok(0));
        assert_eq!(count(Some("7"), None), Ok(0));
        assert_eq!(count(None, Some("2")), Ok(0));
        assert_eq!(count(Some("8"), Some("2")), Ok(0));
        assert_eq!(count(Some("8"), Some("nonsense")), Ok(0));
        assert_eq!(count(Some("7"), Some("2")), Ok(2));
        assert_eq!(count(Some("7"), Some("0")), Ok(0));
    }

    #[test]
    fn an_environment_that_makes_no_sense_is_an_error() {
        assert!(count(Some("seven"), Some("1")).is_err());
        for (text, part) in
            [("-1", "not a number"), ("", "not a number"), ("1025", "1024"), ("70000", "1024")]
        {
            let problem = count(Some("7"), Some(text)).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
