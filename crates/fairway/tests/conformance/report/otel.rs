//! The section about the OpenTelemetry collector. Its results are in conformance/otel, whose program writes them.

const SECTION: &str = "
## Traces: the OpenTelemetry collector

`make otel` (Go, about twenty minutes) compares the spans of 10,000 requests in the OpenTelemetry collector with what clients and endpoints
saw, also while the collector is killed or does not respond ([method](../conformance/otel/README.md) and
[results](../conformance/otel/README.md#results)).
";

/// The section.
pub(super) fn section(page: &mut String) {
    page.push_str(SECTION);
}
