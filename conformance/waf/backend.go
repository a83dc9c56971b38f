package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// response is the response of the tests' endpoint.
type response struct {
	Status  int
	Headers []header
	Body    []byte
}

// respond acts as the endpoint that the Core Rule Set's tests expect: empty responses, and at /reflect the requested one.
func respond(method, target string, body []byte) response {
	empty := response{Status: http.StatusOK, Headers: []header{{"Content-Type", "text/plain"}}}
	if method != http.MethodPost || !(target == "/reflect" || strings.HasPrefix(target, "/reflect/")) {
		return empty
	}
	var asked struct {
		Status      int               `json:"status"`
		Headers     map[string]string `json:"headers"`
		Body        string            `json:"body"`
		EncodedBody string            `json:"encodedBody"`
	}
	if json.Unmarshal(body, &asked) != nil {
		empty.Status = http.StatusBadRequest
		return empty
	}
	r := response{Status: http.StatusOK, Body: []byte(asked.Body)}
	if asked.Status >= 200 && asked.Status < 600 {
		r.Status = asked.Status
	}
	if asked.Body == "" {
		r.Body, _ = base64.StdEncoding.DecodeString(asked.EncodedBody)
	}
	typed := false
	for name, value := range asked.Headers {
		typed = typed || strings.EqualFold(name, "content-type")
		r.Headers = append(r.Headers, header{name, value})
	}
	if !typed {
		r.Headers = append(r.Headers, header{"Content-Type", "text/plain"})
	}
	return r
}

// backend is that endpoint on a socket.
func backend(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		http.Error(w, "the body was cut", http.StatusBadRequest)
		return
	}
	answer := respond(r.Method, r.RequestURI, body)
	for _, each := range answer.Headers {
		w.Header().Set(each.Name, each.Value)
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}
