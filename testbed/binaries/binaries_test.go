package binaries

import (
	"os"
	"path/filepath"
	"testing"
)

func keyOf(t *testing.T, goMod, source string) (string, string) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{"go.mod": goMod, "main.go": source} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	version, key, err := module{folder: "x", pinned: "example.test/x"}.key(folder)
	if err != nil {
		t.Fatal(err)
	}
	return version, key
}

func TestABuildIsNamedByItsVersionAndAllItsSources(t *testing.T) {
	const goMod = "module m\n\nrequire (\n\texample.test/xy v9.9.9\n\texample.test/x v1.2.3\n)\n\nreplace example.test/x => example.test/x v7.7.7\n"
	version, key := keyOf(t, goMod, "package main")
	if version != "v1.2.3" {
		t.Errorf("the version is %q", version)
	}
	if _, again := keyOf(t, goMod, "package main"); again != key {
		t.Error("the same sources have two names")
	}
	if _, other := keyOf(t, goMod, "package main // changed"); other == key {
		t.Error("other sources have the same name")
	}
	if version, _ := keyOf(t, "module m\n\nrequire example.test/x v1.0.0 // indirect\n", ""); version != "v1.0.0" {
		t.Errorf("the version of a single requirement is %q", version)
	}
}
