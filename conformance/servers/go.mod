module fairway.dev/conformance/servers

go 1.26.0
