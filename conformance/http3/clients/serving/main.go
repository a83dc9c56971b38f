// Command serving starts Fairway with HTTP/3 and an endpoint behind it for the clients of ../, and ends both when its input ends.
//
// The first line of its output is a JSON object: where Fairway listens, its version, and the files with the authority to trust,
// with its own certificate and with its log.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fairway.dev/conformance/http3/backend"
	"fairway.dev/conformance/http3/peer"
)

// serving is the configuration of the clients.
type serving struct {
	Port      int    `json:"port"`
	Version   string `json:"version"`
	Authority string `json:"authority"`
	// Leaf is the certificate that Fairway shows.
	Leaf string `json:"leaf"`
	// Log is the file with Fairway's log.
	Log string `json:"log"`
}

func main() {
	fairway := flag.String("fairway", "", "the Fairway to test")
	directory := flag.String("directory", "", "the folder for manifests and logs")
	workers := flag.Int("workers", 4, "workers of Fairway")
	flag.Parse()
	if err := serve(*fairway, *directory, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "serving:", err)
		os.Exit(1)
	}
}

func serve(fairway, directory string, workers int) error {
	endpoint, err := backend.Start()
	if err != nil {
		return err
	}
	defer endpoint.Close()
	certificates, err := peer.NewCertificates()
	if err != nil {
		return err
	}
	authority, leaf := filepath.Join(directory, "authority.pem"), filepath.Join(directory, "leaf.pem")
	if err := errors.Join(os.WriteFile(authority, certificates.Authority, 0o644), os.WriteFile(leaf, certificates.Main.Certificate, 0o644)); err != nil {
		return err
	}
	// No client asks for the hosts of the recorders.
	plan := peer.Plan{Directory: directory, Certificates: certificates, Backend: endpoint.Port, Recorder: endpoint.Port, RecorderH2C: endpoint.Port}
	process, err := peer.StartFairway(fairway, plan, workers)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(serving{process.Address.Port, process.Version, authority, leaf, filepath.Join(directory, process.Name+".log")}); err != nil {
		process.Kill()
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if process.HasEnded() {
		return fmt.Errorf("%s has ended by itself", process.Name)
	}
	process.Terminate()
	return process.Wait()
}
