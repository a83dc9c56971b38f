package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// ServeArgument is the first argument with which the program is quic-go's server instead; the second is a file.
const ServeArgument = "serve-quic-go"

// served is what that process reads from the file.
type served struct {
	Plan            Plan
	Main, Other     Pair
	Authority       []byte
	Port, ReadyPort int
}

// StartQUICGo starts quic-go's server, with a reverse proxy of the standard library behind it, as a process of its own.
func StartQUICGo(plan Plan) (*Process, error) {
	port := freePort()
	settings := served{plan, plan.Certificates.Main, plan.Certificates.Other, plan.Certificates.Authority, port, freePort()}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(plan.Directory, "quic-go.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process, err := start(plan, "quic-go", fmt.Sprintf("http://127.0.0.1:%d/", settings.ReadyPort), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
		program, ServeArgument, file)
	if err == nil {
		process.Version = Version("github.com/quic-go/quic-go")
	}
	return process, err
}

// Version is the version of a module of this program.
func Version(module string) string {
	if build, isKnown := debug.ReadBuildInfo(); isKnown {
		for _, one := range build.Deps {
			if one.Path == module {
				return one.Version
			}
		}
	}
	return "unknown"
}

// ServeQUICGo is that process. It ends after SIGTERM.
func ServeQUICGo(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var settings served
	if err := json.Unmarshal(text, &settings); err != nil {
		return err
	}
	secured, err := settings.tls()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", settings.Port)
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	handler := settings.handler()
	server := &http3.Server{Handler: handler, TLSConfig: http3.ConfigureTLSConfig(secured), QUICConfig: &quic.Config{MaxIncomingStreams: 128, Allow0RTT: settings.Plan.EarlyData},
		MaxHeaderBytes: 32 << 10, Port: settings.Port}
	over := &http.Server{Addr: address, TLSConfig: secured, Handler: http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		_ = server.SetQUICHeaders(writer.Header())
		handler.ServeHTTP(writer, request)
	})}
	go func() { _ = over.ListenAndServeTLS("", "") }()
	go func() { _ = server.Serve(packets) }()
	ready := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", settings.ReadyPort), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = ready.ListenAndServe() }()
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ended.Done()
	drained, cancel := context.WithTimeout(context.Background(), StopTimeout)
	defer cancel()
	return server.Shutdown(drained)
}

func (settings *served) tls() (*tls.Config, error) {
	main, err := settings.Main.TLS()
	if err != nil {
		return nil, err
	}
	other, err := settings.Other.TLS()
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(settings.Authority)
	found := &tls.Config{NextProtos: []string{"h2", "http/1.1"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		switch hello.ServerName {
		case OtherHost:
			return &other, nil
		case PlainHost, H2CHost, TrustedHost, RawHost, RawH2CHost:
			return &main, nil
		}
		return nil, errors.New("unknown name")
	}}
	found.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName != TrustedHost {
			return nil, nil
		}
		trusted := found.Clone()
		trusted.GetConfigForClient, trusted.ClientAuth, trusted.ClientCAs = nil, tls.RequireAndVerifyClientCert, authority
		return trusted, nil
	}
	return found, nil
}

// handler is a reverse proxy to the endpoint of each host.
func (settings *served) handler() http.Handler {
	proxies := map[string]http.Handler{}
	for host, one := range map[string]struct {
		port    int
		isHTTP2 bool
	}{
		PlainHost: {settings.Plan.Backend, false}, OtherHost: {settings.Plan.Backend, false}, TrustedHost: {settings.Plan.Backend, false},
		H2CHost: {settings.Plan.Backend, true}, RawHost: {settings.Plan.Recorder, false}, RawH2CHost: {settings.Plan.RecorderH2C, true},
	} {
		target := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(one.port))}
		transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, MaxIdleConnsPerHost: 128}
		transport.Protocols.SetHTTP1(!one.isHTTP2)
		transport.Protocols.SetUnencryptedHTTP2(one.isHTTP2)
		proxies[host] = &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Host = request.In.Host
		}}
	}
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		host, _, err := net.SplitHostPort(request.Host)
		if err != nil {
			host = request.Host
		}
		if proxy := proxies[host]; proxy != nil {
			proxy.ServeHTTP(writer, request)
			return
		}
		http.NotFound(writer, request)
	})
}
