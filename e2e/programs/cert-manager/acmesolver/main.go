// Command acmesolver serves one HTTP-01 challenge. It takes the arguments that cert-manager gives the containers of its solver
// pods.
package main

import (
	"flag"
	"log"

	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

func main() {
	var answer solver.HTTP01Solver
	flag.IntVar(&answer.ListenPort, "listen-port", 8089, "port of the challenge")
	flag.StringVar(&answer.Domain, "domain", "", "host of the challenge")
	flag.StringVar(&answer.Token, "token", "", "last segment of the challenge's path")
	flag.StringVar(&answer.Key, "key", "", "body of the response")
	flag.Parse()
	logf.InitLogs()
	log.Fatal(answer.Listen(logf.Log))
}
