// An endpoint picker for tests, written from the Endpoint Picker Protocol 1.0.0 of the Gateway API Inference Extension
// (docs/proposals/004-endpoint-picker-protocol).
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"log"
	"math/big"
	"net"
	"strings"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9002", "where to listen")
	secure := flag.Bool("secure", true, "serve with a certificate of its own making")
	endpoints := flag.String("endpoints", "", "IP:PORT,... of the pool")
	flag.Parse()
	picker := &Picker{}
	for _, endpoint := range strings.Split(*endpoints, ",") {
		if endpoint = strings.TrimSpace(endpoint); endpoint != "" {
			picker.endpoints = append(picker.endpoints, endpoint)
		}
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server, err := serverOf(picker, *secure)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("picks among %v at %s", picker.endpoints, listener.Addr())
	log.Fatal(server.Serve(listener))
}

func serverOf(picker *Picker, secure bool) (*grpc.Server, error) {
	var options []grpc.ServerOption
	if secure {
		certificate, err := ownCertificate()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	}
	server := grpc.NewServer(options...)
	extproc.RegisterExternalProcessorServer(server, picker)
	checks := health.NewServer()
	for _, service := range []string{"liveness", "readiness", extproc.ExternalProcessor_ServiceDesc.ServiceName} {
		checks.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(server, checks)
	return server, nil
}

// ownCertificate creates a self-signed certificate, as the reference picker does if it has none.
func ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
