// Command servers is an HTTP/1 server of Go's standard library for the smuggling differential. It answers every request with
// what it saw: "seen METHOD TARGET CONTENT-BYTES". Its argument is the port of 127.0.0.1 to listen on.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	seen := func(w http.ResponseWriter, r *http.Request) {
		count, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "seen %s %s %d\n", r.Method, r.RequestURI, count)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(seen)))
}
