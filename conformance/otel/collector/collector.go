// Package collector owns the real OpenTelemetry collector: as a process that can be killed, from the collector's own modules.
//
// Its pipelines go from the OTLP receiver straight to the OTLP/HTTP exporter, without a queue and without retries. The receiver
// therefore confirms a message only after the sink has it, and a killed collector takes nothing with it that it had confirmed.
package collector

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"

	"fairway.dev/conformance/otel/wait"
)

// Argument makes the program that has this package be a collector: PROGRAM collector GRPC HTTP SINK.
const Argument = "collector"

// readyTimeout bounds how long a collector may take to listen.
const readyTimeout = time.Minute

const configuration = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q}
      http: {endpoint: %q}
exporters:
  otlp_http:
    endpoint: %q
    compression: none
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp_http]}
    metrics: {receivers: [otlp], exporters: [otlp_http]}
    logs: {receivers: [otlp], exporters: [otlp_http]}
`

// Main runs a collector until a signal ends it.
func Main(grpc, http, sink string) error {
	settings := otelcol.CollectorSettings{
		Factories: factories,
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "The collector of Fairway's conformance tests", Version: "test"},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"yaml:" + fmt.Sprintf(configuration, grpc, http, sink)},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	}
	program, err := otelcol.NewCollector(settings)
	if err != nil {
		return err
	}
	return program.Run(context.Background())
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: ownLog()}, err
}

// ownLog makes the collector write warnings about itself to its standard error, and no telemetry of its own. What the collector's
// distributions use in its place brings the clients of several clouds.
func ownLog() telemetry.Factory {
	logger := func(context.Context, telemetry.LoggerSettings, component.Config) (*zap.Logger, component.ShutdownFunc, error) {
		configuration := zap.NewProductionConfig()
		configuration.Level.SetLevel(zap.WarnLevel)
		log, err := configuration.Build()
		return log, nil, err
	}
	return telemetry.NewFactory(func() component.Config { return &struct{}{} }, telemetry.WithCreateLogger(logger))
}

// Addresses are where a collector listens, and where it sends what it received.
type Addresses struct {
	GRPC, HTTP string
	// Sink is a URL, without the path of a signal.
	Sink string
}

// Process is a collector that runs.
type Process struct {
	command *exec.Cmd
	done    chan struct{}
}

// Start starts a collector as a process of its own and waits until it listens. Its log goes to `log`.
func Start(addresses Addresses, log io.Writer) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, Argument, addresses.GRPC, addresses.HTTP, addresses.Sink)
	command.Stdout, command.Stderr = log, log
	// It ends with this program, however that ends.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, err
	}
	process := &Process{command: command, done: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(process.done)
	}()
	for _, address := range []string{addresses.GRPC, addresses.HTTP} {
		if err := wait.Listening(address, process.done, readyTimeout); err != nil {
			process.Kill()
			return nil, fmt.Errorf("the collector: %w", err)
		}
	}
	return process, nil
}

// Kill ends the collector at once, as a lost node would.
func (process *Process) Kill() {
	_ = process.command.Process.Kill()
	<-process.done
}
