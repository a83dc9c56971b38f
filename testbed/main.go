// Command testbed brings up and takes down real single-node Kubernetes clusters for tests, each in namespaces of its own,
// from programs that it builds itself. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"fairway/testbed/state"
)

const usage = `testbed: a real single-node Kubernetes for tests, in namespaces of its own

usage: testbed [--name NAME] COMMAND

A testbed is named by --name, else by the variable TESTBED_NAME, else "fairway". Any number can be up side by side.
All but "image build" and "binaries" need root.

  up                        brings the testbed up and prints where its kubeconfig is; one that is up already keeps its
                            objects and pods, faults end, and components that ended are started; the first time ever it
                            builds its programs into the cache, which takes minutes
  down [--all]              takes it down and leaves nothing, in whatever state it is; --all: every testbed
  status [--json]           what runs, and the testbed's addresses; exit status 1 when it is not ready
  kubectl ARGUMENTS...      kubectl as the cluster's administrator
  exec PROGRAM ARGUMENTS... runs a program in the testbed's network, with names of Services resolved and KUBECONFIG set;
                            files and everything else are those outside; kubectl and ctr are in its PATH
  logs [-f] [COMPONENT]     the log of a component, or the names and the ends of all logs; -f follows
  binaries                  builds the programs without bringing anything up

  image build --name REF --binary FILE[:/PATH] [--file SOURCE:/PATH]... [--entrypoint WORD]... [--command WORD]...
              [--env NAME=VALUE]... [--user UID[:GID]] [--label KEY=VALUE]... [--root FOLDER] [--gzip] -o ARCHIVE
                            writes an image of a program (with the libraries it is linked to, if any) as an OCI layout that
                            containerd, Docker and podman load; the same inputs give the same bytes. With --root, the
                            libraries are those of the system in that folder; with --gzip, the layer is compressed
  image join --name REF -o ARCHIVE ARCHIVE...
                            writes the images of several architectures as one OCI index
  image load ARCHIVE...     loads images into the testbed
  image list                the images of the testbed

  fault api-server stop [--kill] | start | restart
  fault api-server partition [--all] | heal
                            drops packets between the API server and the pods (--all: and the node's own components,
                            kubectl and "testbed exec"), so that connections hang
  fault component NAME stop [--kill] | start | restart
                            the same for any component that "status" lists
  fault kill-container NAMESPACE/POD [CONTAINER]
                            SIGKILL to the container's first process
  fault drop-address ADDRESS [--except-node] | restore-address ADDRESS
                            drops all packets to and from a pod's address (--except-node: not those from and to the node
                            itself, so that kubelet's probes go on)
`

// failure is an exit status without more words.
type failure int

func (f failure) Error() string {
	return fmt.Sprintf("exit status %d", int(f))
}

func main() {
	err := run(os.Args[1:])
	var status failure
	if errors.As(err, &status) {
		os.Exit(int(status))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testbed: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	name := os.Getenv("TESTBED_NAME")
	if name == "" {
		name = "fairway"
	}
	flags := flag.NewFlagSet("testbed", flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() {}
	flags.StringVar(&name, "name", name, "")
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return nil
	case err != nil:
		return failure(2)
	case flags.NArg() == 0:
		fmt.Fprint(os.Stderr, usage)
		return failure(2)
	}
	testbed, err := state.System.Named(name)
	if err != nil {
		return err
	}
	return command(testbed, flags.Arg(0), flags.Args()[1:])
}

func command(testbed state.Testbed, name string, rest []string) error {
	if len(rest) > 0 && (rest[0] == "--help" || rest[0] == "-h") && name != "kubectl" && name != "exec" {
		fmt.Print(usage)
		return nil
	}
	switch name {
	case "help":
		fmt.Print(usage)
		return nil
	case "binaries":
		return buildBinaries()
	case "image":
		return images(testbed, rest)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s needs root, for namespaces and cgroups; run it with sudo", name)
	}
	switch name {
	case "up":
		return up(testbed)
	case "down":
		return down(testbed, rest)
	case "status":
		return status(testbed, rest)
	case "kubectl":
		return execute(testbed, append([]string{"kubectl"}, rest...))
	case "exec":
		return execute(testbed, rest)
	case "logs":
		return logs(testbed, rest)
	case "fault":
		return fault(testbed, rest)
	case initCommand:
		return live(testbed)
	case serveCommand:
		return serve(testbed)
	}
	return fmt.Errorf("there is no command %q; see testbed --help", name)
}

// parseArguments parses the flags of a command wherever they stand among its parseArguments.
func parseArguments(flags *flag.FlagSet, arguments []string) ([]string, error) {
	flags.SetOutput(os.Stderr)
	flags.Usage = func() { fmt.Fprintln(os.Stderr, "see testbed --help") }
	var found []string
	for {
		if err := flags.Parse(arguments); err != nil {
			return nil, failure(2)
		}
		if flags.NArg() == 0 {
			return found, nil
		}
		found = append(found, flags.Arg(0))
		arguments = flags.Args()[1:]
	}
}

// several is a flag that may be given more than once.
type several []string

func (s *several) String() string { return strings.Join(*s, " ") }

func (s *several) Set(value string) error {
	*s = append(*s, value)
	return nil
}
