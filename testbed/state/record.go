// Package state is what is known of a testbed outside of its own processes: one record in its folder below /run, enough
// to find and remove everything whatever part has crashed. It never names a process by its number alone.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// Roots are where testbeds live.
type Roots struct {
	// Run has the records, sockets and credentials, which a reboot removes.
	Run string
	// Data has large files: images, containers, the store, logs.
	Data string
}

// System are the roots of every testbed of this machine.
var System = Roots{Run: "/run/fairway-testbed", Data: "/var/lib/fairway-testbed"}

// Testbed is one testbed by name, there or not.
type Testbed struct {
	Name  string
	roots Roots
}

// Record is written before the first process of a testbed starts.
type Record struct {
	Name string `json:"name"`
	// Init is the first process of the testbed's process namespace: with it all others end. Zero until it is started.
	Init Process `json:"init"`
	// Cgroups are the folders of the testbed in each cgroup hierarchy.
	Cgroups []string `json:"cgroups"`
	// NetworkNamespace is the inode of the testbed's network namespace.
	NetworkNamespace uint64    `json:"networkNamespace"`
	Data             string    `json:"data"`
	Created          time.Time `json:"created"`
}

// Name lengths are bounded by that of socket paths: 107 bytes.
var nameFormat = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$`)

// Named is the testbed of that name.
func (r Roots) Named(name string) (Testbed, error) {
	if !nameFormat.MatchString(name) {
		return Testbed{}, fmt.Errorf("testbed name %q: use up to 30 small letters, digits and inner hyphens", name)
	}
	return Testbed{Name: name, roots: r}, nil
}

// All are the testbeds that left a folder in one of the roots.
func (r Roots) All() ([]Testbed, error) {
	var found []Testbed
	seen := map[string]bool{}
	for _, root := range []string{r.Run, r.Data} {
		entries, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the testbeds: %w", err)
		}
		for _, entry := range entries {
			if testbed, err := r.Named(entry.Name()); err == nil && !seen[testbed.Name] {
				seen[testbed.Name] = true
				found = append(found, testbed)
			}
		}
	}
	return found, nil
}

// Run is the folder of the record, the sockets and the credentials.
func (t Testbed) Run(parts ...string) string {
	return filepath.Join(append([]string{t.roots.Run, t.Name}, parts...)...)
}

// Data is the folder of all that is big.
func (t Testbed) Data(parts ...string) string {
	return filepath.Join(append([]string{t.roots.Data, t.Name}, parts...)...)
}

// Log is where a component writes.
func (t Testbed) Log(component string) string {
	return t.Data("logs", component+".log")
}

// Kubeconfig is the administrator's.
func (t Testbed) Kubeconfig() string {
	return t.Run("kubeconfig")
}

// Control is the socket of the process that runs the testbed.
func (t Testbed) Control() string {
	return t.Run("control.sock")
}

// Read reads the record; there is none (fs.ErrNotExist) when the testbed is not up.
func (t Testbed) Read() (Record, error) {
	content, err := os.ReadFile(t.Run("state.json"))
	if err != nil {
		return Record{}, fmt.Errorf("read the state of testbed %s: %w", t.Name, err)
	}
	var record Record
	if err := json.Unmarshal(content, &record); err != nil {
		return Record{}, fmt.Errorf("read the state of testbed %s in %s: %w", t.Name, t.Run("state.json"), err)
	}
	return record, nil
}

// Write replaces the record as a whole: a reader or a crash never sees half of it.
func (t Testbed) Write(record Record) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("write the state of testbed %s: %w", t.Name, err)
	}
	next := t.Run("state.json.next")
	if err := os.WriteFile(next, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the state of testbed %s: %w", t.Name, err)
	}
	if err := os.Rename(next, t.Run("state.json")); err != nil {
		return fmt.Errorf("write the state of testbed %s: %w", t.Name, err)
	}
	return nil
}

// Lock makes the testbed's folder if need be and holds it, so that one command at a time brings it up or down. It ends
// with the process at the latest.
func (t Testbed) Lock() (release func(), err error) {
	for {
		if err := os.MkdirAll(t.Run(), 0o755); err != nil {
			return nil, fmt.Errorf("make the folder of testbed %s: %w", t.Name, err)
		}
		folder, err := os.Open(t.Run())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock testbed %s: %w", t.Name, err)
		}
		if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
			folder.Close()
			return nil, fmt.Errorf("lock testbed %s: %w", t.Name, err)
		}
		// A `down` that held it may have removed the folder: then another folder has its name, or will.
		held, err := folder.Stat()
		if err != nil {
			folder.Close()
			return nil, fmt.Errorf("lock testbed %s: %w", t.Name, err)
		}
		if named, err := os.Stat(t.Run()); err == nil && os.SameFile(held, named) {
			return func() { folder.Close() }, nil
		}
		folder.Close()
	}
}

// Remove removes the folders, and the roots when this was the last testbed.
func (t Testbed) Remove() error {
	for _, folder := range []string{t.Data(), t.Run()} {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove testbed %s: %w", t.Name, err)
		}
		if err := unix.Rmdir(filepath.Dir(folder)); err != nil && err != unix.ENOTEMPTY && err != unix.ENOENT && err != unix.EEXIST {
			return fmt.Errorf("remove the folder of testbeds %s: %w", filepath.Dir(folder), err)
		}
	}
	return nil
}
