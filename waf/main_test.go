package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"fairway.dev/waf/metrics"
)

func TestFlags(t *testing.T) {
	if _, err := parse([]string{"--mode", "On", "--listen", "unix:/run/waf.sock", "--log-format", "json"}); err != nil {
		t.Error(err)
	}
	for _, arguments := range [][]string{
		{"surplus"}, {"--max-request-body", "0"}, {"--max-buffered-bytes", "1000"}, {"--log-format", "xml"}, {"--max-transactions", "-1"},
		{"--max-request-body", "2147483648", "--max-buffered-bytes", "4294967296"},
	} {
		if _, err := parse(arguments); err == nil {
			t.Errorf("accepted %v", arguments)
		}
	}
}

func TestSocketOfAnEarlierRunIsReplacedAndAFileIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "waf.sock")
	first, err := listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen("unix:" + path); err == nil {
		t.Error("replaced a file")
	}
}

func TestReadinessFollowsTheState(t *testing.T) {
	state := &state{}
	handler := adminHandler(state, metrics.New())
	code := func(path string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code
	}
	if code("/readyz") != http.StatusServiceUnavailable || code("/healthz") != http.StatusOK || code("/metrics") != http.StatusOK {
		t.Error("before")
	}
	state.ready.Store(true)
	if code("/readyz") != http.StatusOK {
		t.Error("after")
	}
}

func TestDefaultConfigurationOfFlags(t *testing.T) {
	o := &options{mode: "detectiononly", directives: filepath.Join(t.TempDir(), "missing")}
	if _, err := o.configuration(); err == nil {
		t.Error("a file that is missing")
	}
	o.directives, o.mode = "", "sometimes"
	if _, err := o.configuration(); err == nil {
		t.Error("a mode that is none")
	}
}
