// Command kubernetes is every program of one Kubernetes node and its control plane in one file: the first argument
// names the program, the rest are its own arguments. One file instead of six links (and takes up) a sixth.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

var names = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"}

// program sets up only the requested program: they register global metrics and flags.
func program(name string) (*cobra.Command, bool) {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand(), true
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand(), true
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand(), true
	case "kube-proxy":
		return proxy.NewProxyCommand(), true
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background()), true
	case "kubectl":
		return cmd.NewDefaultKubectlCommand(), true
	}
	return nil, false
}

// called finds the program's name: that of the link through which this file was started (kubectl plugins and scripts
// expect a `kubectl`), else the first argument. The rest are the program's own arguments.
func called(arguments []string) (name string, rest []string) {
	if base := filepath.Base(arguments[0]); slices.Contains(names, base) {
		return base, arguments[1:]
	}
	if len(arguments) < 2 {
		return "", nil
	}
	return arguments[1], arguments[2:]
}

func main() {
	name, rest := called(os.Args)
	// The programs read os.Args themselves.
	os.Args = append([]string{name}, rest...)
	command, known := program(name)
	if !known {
		fmt.Fprintf(os.Stderr, "usage: kubernetes PROGRAM ARGUMENTS..., PROGRAM is one of %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	if name == "kubectl" {
		// kubectl prints its errors itself, and its arguments may name a plugin.
		if err := cli.RunNoErrOutput(command); err != nil {
			cmdutil.CheckErr(err)
		}
		return
	}
	os.Exit(cli.Run(command))
}
