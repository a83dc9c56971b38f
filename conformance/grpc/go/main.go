// Command go is client and server of gRPC's interoperability cases, as grpc-go itself implements them
// (google.golang.org/grpc/interop). The cases of compression, which grpc-go has none of, are in compression.go.
//
//	PROGRAM version
//	PROGRAM server ADDRESS [CERTIFICATE KEY]
//	PROGRAM client ADDRESS HOST CASE [AUTHORITY]
//
// HOST is the name that calls are for. With a certificate, or the authority that signed it, TLS is spoken.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// Twice the time that the longest case needs on a busy machine: a case that hangs fails.
const patience = 60 * time.Second

func main() {
	log.SetFlags(0)
	switch arguments := os.Args[1:]; {
	case len(arguments) == 1 && arguments[0] == "version":
		fmt.Println(version())
	case (len(arguments) == 2 || len(arguments) == 4) && arguments[0] == "server":
		serve(arguments[1], arguments[2:])
	case (len(arguments) == 4 || len(arguments) == 5) && arguments[0] == "client":
		call(arguments[1], arguments[2], arguments[3], arguments[4:])
	default:
		log.Fatal("usage: version | server ADDRESS [CERTIFICATE KEY] | client ADDRESS HOST CASE [AUTHORITY]")
	}
}

func version() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "google.golang.org/grpc" {
				return module.Version
			}
		}
	}
	return "unknown"
}

func serve(address string, certificate []string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	options := []grpc.ServerOption{grpc.StatsHandler(watcher{})}
	if len(certificate) == 2 {
		tls, err := credentials.NewServerTLSFromFile(certificate[0], certificate[1])
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(tls))
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, compressing{interop.NewTestServer()})
	log.Fatal(server.Serve(listener))
}

func call(address, host, name string, authority []string) {
	options := []grpc.DialOption{grpc.WithAuthority(host), grpc.WithStatsHandler(watcher{})}
	if len(authority) == 1 {
		tls, err := credentials.NewClientTLSFromFile(authority[0], host)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.WithTransportCredentials(tls))
	} else {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	connect := func() *grpc.ClientConn {
		connection, err := grpc.NewClient("passthrough:///"+address, options...)
		if err != nil {
			log.Fatal(err)
		}
		return connection
	}
	connection := connect()
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	run, known := cases[name]
	if !known {
		log.Fatalf("no case %q", name)
	}
	run(ctx, connection, connect)
	if ctx.Err() != nil {
		log.Fatal(ctx.Err())
	}
}

type connecting = func() *grpc.ClientConn

// Each ends the process if it fails.
var cases = map[string]func(context.Context, *grpc.ClientConn, connecting){
	"empty_unary":                 withClient(interop.DoEmptyUnaryCall),
	"large_unary":                 withClient(interop.DoLargeUnaryCall),
	"client_streaming":            withClient(interop.DoClientStreaming),
	"server_streaming":            withClient(interop.DoServerStreaming),
	"ping_pong":                   withClient(interop.DoPingPong),
	"empty_stream":                withClient(interop.DoEmptyStream),
	"timeout_on_sleeping_server":  withClient(interop.DoTimeoutOnSleepingServer),
	"cancel_after_begin":          withClient(interop.DoCancelAfterBegin),
	"cancel_after_first_response": withClient(interop.DoCancelAfterFirstResponse),
	"status_code_and_message":     withClient(interop.DoStatusCodeAndMessage),
	"special_status_message":      withClient(interop.DoSpecialStatusMessage),
	"custom_metadata":             withClient(interop.DoCustomMetadata),
	"unimplemented_method": func(ctx context.Context, connection *grpc.ClientConn, _ connecting) {
		interop.DoUnimplementedMethod(ctx, connection)
	},
	"unimplemented_service": func(ctx context.Context, connection *grpc.ClientConn, _ connecting) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(connection))
	},
	"client_compressed_unary":     withClient(clientCompressedUnary),
	"server_compressed_unary":     withClient(serverCompressedUnary),
	"client_compressed_streaming": withClient(clientCompressedStreaming),
	"server_compressed_streaming": withClient(serverCompressedStreaming),
	"rpc_soak": func(ctx context.Context, connection *grpc.ClientConn, _ connecting) {
		soak(ctx, func() (*grpc.ClientConn, func()) { return connection, func() {} })
	},
	"channel_soak": func(ctx context.Context, _ *grpc.ClientConn, connect connecting) {
		soak(ctx, func() (*grpc.ClientConn, func()) {
			connection := connect()
			return connection, func() { connection.Close() }
		})
	},
}

func withClient(do func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, *grpc.ClientConn, connecting) {
	return func(ctx context.Context, connection *grpc.ClientConn, _ connecting) {
		do(ctx, testgrpc.NewTestServiceClient(connection))
	}
}

// Messages of the usual size, 200 by four workers; how long one takes says more of the machine than of a proxy.
func soak(ctx context.Context, channel func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, Iterations: 200, NumWorkers: 4,
		PerIterationMaxAcceptableLatency: patience / 6, OverallTimeout: patience, ChannelForTest: channel,
	})
}
