//! The section about the OpenTelemetry collector. Its results are in conformance/otel, whose program writes them.

const SECTION: &str = "
## Traces: the OpenTelemetry collector

[conformance/otel](../conformance/otel/README.md) sends 10,000 requests over HTTP/1.1, HTTP/2 and gRPC, with retries and hedged connects,
and compares the spans that come out of the real OpenTelemetry collector with what clients and endpoints saw. Trace headers are valid,
malformed or missing. The collector is killed under load, and replaced by ones that never answer or answer what is not true. It needs Go,
which builds the collector from its modules, and no root:

```sh
make otel                                     # about twenty minutes
make otel ARGS='-only trees -requests 2000'   # a part; -help of the program lists the flags
```

Its [README](../conformance/otel/README.md#results) has the results of the last published run.
";

/// The section.
pub(super) fn section(page: &mut String) {
    page.push_str(SECTION);
}
