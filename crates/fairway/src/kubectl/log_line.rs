//! Classifies the lines of a pod's log, which mixes the access log with messages of the process.

use serde::Deserialize;

/// The kind of a log line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogLine {
    /// A JSON line of the access log, with the host of the request or of the TLS connection.
    Access { host: Option<String> },
    /// A text line of the access log, which does not show the host.
    Text,
    /// A message of the process.
    Message,
}

/// The members of a JSON line that are read. Messages never have `took_us`.
#[derive(Deserialize)]
struct Members {
    took_us: Option<u64>,
    request: Option<RequestMembers>,
    stream: Option<StreamMembers>,
}

#[derive(Deserialize)]
struct RequestMembers {
    host: Option<String>,
}

#[derive(Deserialize)]
struct StreamMembers {
    name: Option<String>,
}

impl LogLine {
    pub(super) fn read(line: &str) -> Self {
        match serde_json::from_str::<Members>(line) {
            Ok(Members { took_us: Some(_), request, stream }) => {
                let host = request.and_then(|request| request.host);
                Self::Access { host: host.or(stream.and_then(|stream| stream.name)) }
            }
            Ok(_) => Self::Message,
            Err(_) if is_message(line) => Self::Message,
            Err(_) => Self::Text,
        }
    }
}

/// Whether a line starts with a timestamp and a level, as messages do.
fn is_message(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_time =
        words.next().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('T'));
    is_time && matches!(words.next(), Some("ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_log_lines_are_distinguished_from_messages() {
        let access = |host: &str| LogLine::Access { host: Some(host.to_owned()) };
        for (line, expected) in [
            (
                r#"{"time":"t","request":{"host":"shop.test","method":"GET"},"took_us":7,"rule":null}"#,
                access("shop.test"),
            ),
            (r#"{"time":"t","stream":{"protocol":"TCP","name":"db.test"},"took_us":7}"#, access("db.test")),
            (r#"{"time":"t","request":{"host":null},"took_us":7}"#, LogLine::Access { host: None }),
            (r#"{"timestamp":"t","level":"INFO","message":"a listener is bound"}"#, LogLine::Message),
            ("2026-11-21T02:48:17.123456Z  WARN a listener is not bound", LogLine::Message),
            ("192.0.2.1 - - [21/Nov/2026:02:48:17 +0000] \"GET / HTTP/1.1\" 200 5", LogLine::Text),
            ("", LogLine::Text),
        ] {
            assert_eq!(LogLine::read(line), expected, "{line}");
        }
    }
}
