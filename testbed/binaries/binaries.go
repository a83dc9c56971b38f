// Package binaries builds the programs that a testbed runs, once, into a cache outside of the checkout. What a build is
// made from (pinned modules, sources, compiler) names its folder: another version never meets the old one. It uses the
// ordinary Go client, so that GOFLAGS, GOPROXY and the like hold, and never writes into the checkout.
package binaries

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"fairway/testbed/image"
	"fairway/testbed/node"
	"golang.org/x/sys/unix"
)

// module is one Go module of the testbed and the programs built from it.
type module struct {
	folder string
	// pinned is the dependency whose version names the build.
	pinned string
	// programs are packages by the name of their program.
	programs map[string]string
	// stamp is the package whose gitVersion is to be the pinned version.
	stamp string
	about string
}

var (
	kubernetes = module{
		folder: "kubernetes", pinned: "k8s.io/kubernetes", programs: map[string]string{"kubernetes": "."},
		stamp: "k8s.io/component-base/version", about: "about 6 minutes on two cores",
	}
	containerd = module{
		folder: "containerd", pinned: "github.com/containerd/containerd/v2",
		programs: map[string]string{
			"containerd":              "github.com/containerd/containerd/v2/cmd/containerd",
			"containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			"ctr":                     "github.com/containerd/containerd/v2/cmd/ctr",
		},
		about: "about 2 minutes",
	}
	coredns = module{
		folder: "coredns", pinned: "github.com/coredns/coredns", programs: map[string]string{"coredns": "."},
		about: "about 2 minutes",
	}
	// pause is of the command's own module, but its build does not change with the command.
	pause = module{folder: "pause", programs: map[string]string{"pause": "."}, about: "seconds"}
)

// Cache is where the builds are.
func Cache() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache directory (set XDG_CACHE_HOME): %w", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "fairway", "testbed"), nil
}

// Ensure builds missing programs; `say` reports slow steps. Sources are those of the checkout.
func Ensure(sources string, say func(string)) (node.Programs, error) {
	var programs node.Programs
	folders := map[string]string{}
	for _, each := range []module{kubernetes, containerd, coredns, pause} {
		folder, err := each.ensure(sources, say)
		if err != nil {
			return programs, err
		}
		folders[each.folder] = folder
	}
	programs.Kubernetes = filepath.Join(folders["kubernetes"], "kubernetes")
	programs.Containerd = folders["containerd"]
	programs.CoreDNS = filepath.Join(folders["coredns"], "coredns")
	programs.Pause = filepath.Join(folders["pause"], "pause.tar")
	return programs, packPause(filepath.Join(folders["pause"], "pause"), programs.Pause)
}

// packPause writes the archive of the pods' first image, unless it is there.
func packPause(program, archive string) error {
	if _, err := os.Stat(archive); err == nil {
		return nil
	}
	files, architecture, err := image.Program(program, "/pause", "")
	if err != nil {
		return err
	}
	var content bytes.Buffer
	if err := image.Write(&content, image.Spec{
		Name: node.PauseImage, Architecture: architecture, Entrypoint: []string{"/pause"},
		Environment: []string{"GOMAXPROCS=1"}, Files: files,
	}); err != nil {
		return err
	}
	next := fmt.Sprintf("%s.%d", archive, os.Getpid())
	if err := os.WriteFile(next, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the pause image: %w", err)
	}
	if err := os.Rename(next, archive); err != nil {
		return fmt.Errorf("write the pause image: %w", err)
	}
	return nil
}

// ensure builds the module's programs unless they are in the cache, and says where they are.
func (m module) ensure(sources string, say func(string)) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	source := filepath.Join(sources, m.folder)
	version, key, err := m.key(source)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, strings.Trim(m.folder+"-"+version, "-")+"-"+key)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	release, err := lock(filepath.Join(cache, m.folder+".lock"), func() {
		say("waiting for another build of " + m.folder)
	})
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	begun := time.Now()
	say(fmt.Sprintf("building %s once, %s", strings.TrimSpace(m.folder+" "+version), m.about))
	if err := m.build(source, version, folder, say); err != nil {
		return "", err
	}
	say(fmt.Sprintf("built %s in %s", m.folder, time.Since(begun).Round(time.Second)))
	return folder, nil
}

func (m module) build(source, version, folder string, say func(string)) error {
	next, err := os.MkdirTemp(filepath.Dir(folder), ".building-"+m.folder+"-")
	if err != nil {
		return fmt.Errorf("make a folder to build %s: %w", m.folder, err)
	}
	defer os.RemoveAll(next)
	flags := "-s -w"
	if m.stamp != "" {
		major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		minor, _, _ = strings.Cut(minor, ".")
		for name, value := range map[string]string{"gitVersion": version, "gitMajor": major, "gitMinor": minor} {
			flags += fmt.Sprintf(" -X %s.%s=%s", m.stamp, name, value)
		}
	}
	for name, path := range m.programs {
		command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", filepath.Join(next, name), path)
		command.Dir = source
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if output, err := run(command, m.folder, say); err != nil {
			return fmt.Errorf("build %s in %s: %w\n%s", name, source, err, output)
		}
	}
	// A folder of MkdirTemp is private to its owner; programs in the testbed may have another user.
	if err := os.Chmod(next, 0o755); err != nil {
		return fmt.Errorf("keep the build of %s: %w", m.folder, err)
	}
	if err := os.Rename(next, folder); err != nil {
		return fmt.Errorf("keep the build of %s: %w", m.folder, err)
	}
	return nil
}

// run runs a build and reports now and then that it continues.
func run(command *exec.Cmd, what string, say func(string)) (string, error) {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("go is missing; install Go 1.26 or newer (https://go.dev/dl)")
		}
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	begun := time.Now()
	for ticker := time.NewTicker(30 * time.Second); ; {
		select {
		case err := <-done:
			ticker.Stop()
			return strings.TrimSpace(output.String()), err
		case <-ticker.C:
			say(fmt.Sprintf("still building %s, %s so far", what, time.Since(begun).Round(time.Second)))
		}
	}
}

// key names a build: the pinned version, and a hash of all that goes into it.
func (m module) key(source string) (version, key string, err error) {
	files, err := filepath.Glob(filepath.Join(source, "*"))
	if err != nil {
		return "", "", fmt.Errorf("list %s: %w", source, err)
	}
	if len(files) == 0 {
		return "", "", fmt.Errorf("%s is empty; run testbed/testbed from a checkout", source)
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	slices.Sort(files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("read the sources of %s: %w", m.folder, err)
		}
		fmt.Fprintf(hash, "%s %d\n", filepath.Base(file), len(content))
		hash.Write(content)
		if filepath.Base(file) == "go.mod" {
			version = pinnedVersion(string(content), m.pinned)
		}
	}
	return version, hex.EncodeToString(hash.Sum(nil))[:12], nil
}

func pinnedVersion(goMod, name string) string {
	for line := range strings.Lines(goMod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == name && strings.HasPrefix(fields[1], "v") {
			return fields[1]
		}
	}
	return ""
}

// lock holds a file; `waiting` is called when another process holds it.
func lock(path string, waiting func()) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the cache directory: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		waiting()
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	return func() { file.Close() }, nil
}
