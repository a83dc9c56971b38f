//! Log messages on standard error. Standard output is reserved for the access log.
//!
//! Messages contain untrusted text from objects, files and peers. Whatever that text is, each message stays on one line.

use std::io::{self, Write};

use anyhow::{Context, Result};
use fairway_model::{is_layout_control, on_one_line};
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::LogFormat;

/// Libraries whose warnings are suppressed unless the filter names them. The cluster source already logs a warning for every
/// broken watch of the Kubernetes client. quinn warns about single packets, which anybody can send; metrics count them.
const QUIET_LIBRARIES: [&str; 2] = ["kube_client", "quinn_proto"];

/// Sets up logging for the process.
///
/// # Errors
/// `level` is not a level or filter.
pub(crate) fn start(format: LogFormat, level: &str) -> Result<()> {
    let filter = filter(level).with_context(|| format!("--log-level {level}"))?;
    subscriber(format, filter, io::stderr).try_init().context("logging is already set up")
}

fn filter(level: &str) -> Result<EnvFilter> {
    let mut filter = EnvFilter::builder().parse(level)?;
    for library in QUIET_LIBRARIES.iter().filter(|library| !level.contains(**library)) {
        filter = filter.add_directive(format!("{library}=error").parse()?);
    }
    Ok(filter)
}

/// A subscriber that writes messages in `format` to the writers that `writer` makes, each with one call.
fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    writer: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: Write + 'static,
{
    let writer = LineWriters { format, writer };
    let messages = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    match format {
        // Control characters are replaced by `on_one_line` as everywhere else, not by the library, which handles only some.
        LogFormat::Text => Box::new(messages.with_ansi(false).with_ansi_sanitization(false).finish()),
        LogFormat::Json => Box::new(messages.json().flatten_event(true).finish()),
    }
}

/// Makes writers that keep each message on one line.
struct LineWriters<F> {
    format: LogFormat,
    writer: F,
}

/// A writer that gets each message with one call.
struct LineWriter<W> {
    format: LogFormat,
    writer: W,
}

impl<'a, W: Write, F: Fn() -> W> MakeWriter<'a> for LineWriters<F> {
    type Writer = LineWriter<W>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { format: self.format, writer: (self.writer)() }
    }
}

impl<W: Write> Write for LineWriter<W> {
    /// Writes one message: the library passes each message with one call.
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        let line = match self.format {
            LogFormat::Text => on_one_line(text),
            LogFormat::Json => escaped(text),
        };
        self.writer.write_all((line + end).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Escapes the layout controls in JSON that JSON itself does not require to be escaped.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match is_layout_control(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Logs untrusted text everywhere a message can contain it: in the message, and in a field by `Display`, as a string and as an
    /// error.
    fn logged(format: LogFormat, text: &str) -> String {
        let out = SharedBuffer::default();
        let writer = out.clone();
        let subscriber = subscriber(format, EnvFilter::new("info"), move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            let error: &(dyn std::error::Error + 'static) = &io::Error::other(text.to_owned());
            tracing::warn!(shown = %text, plain = text, error, "{text}; the rest");
            tracing::info!("the next");
        });
        let bytes = out.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn untrusted_text_cannot_break_or_reorder_a_line() {
        let text = "a\nERROR forged\r\u{85}\u{2028}\u{2029}\u{202e}\u{2066}\u{1b}[2J\u{7f}\u{200b}\u{feff}\u{ad}\u{e0041}é";
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = logged(format, text);
            assert_eq!(lines.lines().count(), 2, "{lines}");
            assert!(!lines.chars().any(|c| is_layout_control(c) && c != '\n'), "{lines:?}");
            assert!(lines.contains('é'), "{lines}");
        }
    }

    #[test]
    fn json_preserves_the_text() {
        let text = "a\nb\u{85}\u{2028}\u{202e}\u{200b}\u{e0041}é\"\\";
        let lines = logged(LogFormat::Json, text);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!((first["shown"].as_str(), first["plain"].as_str()), (Some(text), Some(text)));
        assert_eq!(first["message"], format!("{text}; the rest"));
    }
}
