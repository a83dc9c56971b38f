package main

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"fairway.dev/waf/metrics"
)

// state is what `/readyz` tells.
type state struct {
	ready atomic.Bool
}

func adminHandler(state *state, counts *metrics.Metrics) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !state.ready.Load() {
			http.Error(w, "the default configuration is being compiled, or the program drains", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		counts.Write(w)
	})
	return mux
}
