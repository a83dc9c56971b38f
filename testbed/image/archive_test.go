package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func spec(files ...File) Spec {
	return Spec{
		Name: "fairway.test/program:v1", Architecture: "amd64", Entrypoint: []string{"/bin/program"}, User: "65532",
		Labels: map[string]string{"b": "2", "a": "1"}, Files: files,
	}
}

func write(t *testing.T, spec Spec) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, spec); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = content
	}
}

func parse(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
}

func TestTheSameFilesGiveTheSameBytesInWhateverOrder(t *testing.T) {
	one := File{Path: "/bin/program", Mode: 0o755, Content: []byte("one")}
	two := File{Path: "/etc/two", Mode: 0o644, Content: []byte("two")}
	if !bytes.Equal(write(t, spec(one, two)), write(t, spec(two, one))) {
		t.Error("two archives of the same files differ")
	}
	changed := one
	changed.Content = []byte("other")
	if bytes.Equal(write(t, spec(one, two)), write(t, spec(changed, two))) {
		t.Error("two archives of different files are the same")
	}
}

func TestBothEntryPointsOfAnArchiveNameTheSameContents(t *testing.T) {
	files := unpack(t, write(t, spec(File{Path: "/bin/program", Mode: 0o755, Content: []byte("text")})))
	for name, content := range files {
		if digest, isBlob := strings.CutPrefix(name, "blobs/sha256/"); isBlob {
			if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s does not have the digest it is named for", name)
			}
		}
	}
	var index struct{ Manifests []descriptor }
	parse(t, files["index.json"], &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	parse(t, files[blobPath(index.Manifests[0].Digest)], &manifest)
	var docker []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	parse(t, files["manifest.json"], &docker)
	if docker[0].Config != blobPath(manifest.Config.Digest) || docker[0].Layers[0] != blobPath(manifest.Layers[0].Digest) {
		t.Errorf("Docker's manifest %+v names other contents than OCI's %+v", docker[0], manifest)
	}
	if docker[0].RepoTags[0] != "fairway.test/program:v1" || index.Manifests[0].Annotations["io.containerd.image.name"] != "fairway.test/program:v1" {
		t.Error("the archive does not say the image's name")
	}
	layer := unpack(t, files[docker[0].Layers[0]])
	if string(layer["bin/program"]) != "text" {
		t.Errorf("the layer holds %v, not the program", layer)
	}
	for _, folder := range []string{"tmp/", "bin/", "etc/"} {
		if _, there := layer[folder]; !there {
			t.Errorf("the layer has no folder %s", folder)
		}
	}
}

func TestImagesThatCannotWorkAreRefused(t *testing.T) {
	for name, bad := range map[string]Spec{
		"no tag":        {Name: "host:5000/program"},
		"no name":       {},
		"relative path": {Name: "program:v1", Files: []File{{Path: "program"}}},
		"given twice":   {Name: "program:v1", Files: []File{{Path: "/a/b"}, {Path: "/a/./b"}}},
	} {
		if err := Write(io.Discard, bad); err == nil {
			t.Errorf("%s: was written", name)
		}
	}
}

func TestJoinedImagesAreOneIndexOfCompressedLayers(t *testing.T) {
	folder := t.TempDir()
	var archives []string
	for _, architecture := range []string{"amd64", "arm64"} {
		one := spec(File{Path: "/bin/program", Mode: 0o755, Content: []byte(strings.Repeat(architecture, 1000))})
		one.Architecture, one.Gzip = architecture, true
		archives = append(archives, filepath.Join(folder, architecture))
		keep(t, archives[len(archives)-1], write(t, one))
	}
	var out bytes.Buffer
	if err := Join(&out, "fairway.test/program:v1", archives); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	var top, joined struct{ Manifests []descriptor }
	parse(t, files["index.json"], &top)
	parse(t, files[blobPath(top.Manifests[0].Digest)], &joined)
	if len(top.Manifests) != 1 || len(joined.Manifests) != 2 {
		t.Fatalf("%d indexes with %d images", len(top.Manifests), len(joined.Manifests))
	}
	for at, architecture := range []string{"amd64", "arm64"} {
		if joined.Manifests[at].Platform.Architecture != architecture {
			t.Errorf("image %d is for %+v", at, joined.Manifests[at].Platform)
		}
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		parse(t, files[blobPath(joined.Manifests[at].Digest)], &manifest)
		var config struct {
			Rootfs struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		parse(t, files[blobPath(manifest.Config.Digest)], &config)
		reader, err := gzip.NewReader(bytes.NewReader(files[blobPath(manifest.Layers[0].Digest)]))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); config.Rootfs.DiffIDs[0] != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("the image for %s names another layer than it has", architecture)
		}
		if manifest.Layers[0].MediaType != gzipType || manifest.Layers[0].Size >= len(content) {
			t.Errorf("the layer for %s is not compressed: %+v", architecture, manifest.Layers[0])
		}
	}
	if err := Join(io.Discard, "fairway.test/program:v1", []string{archives[0], archives[0]}); err == nil || !strings.Contains(err.Error(), "both images for amd64") {
		t.Errorf("two images of one architecture gave %v", err)
	}
	keep(t, filepath.Join(folder, "index"), out.Bytes())
	if err := Join(io.Discard, "fairway.test/program:v1", []string{filepath.Join(folder, "index")}); err == nil {
		t.Error("an index was taken for an image")
	}
}

func TestADynamicProgramBringsItsLoaderAndLibraries(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	head, err := describe(shell)
	if err != nil {
		t.Fatal(err)
	}
	if head.interpreter == "" {
		t.Fatalf("%s is static, so that this machine has nothing to try", shell)
	}
	files, _, err := Program(shell, "/bin/sh", "")
	if err != nil {
		t.Fatal(err)
	}
	var loader bool
	found := map[string]bool{}
	for _, file := range files {
		loader = loader || file.Path == head.interpreter
		found[filepath.Base(file.Path)] = true
	}
	if !loader {
		t.Errorf("the loader %s is missing", head.interpreter)
	}
	for _, name := range head.needed {
		if !found[name] {
			t.Errorf("the library %s is missing", name)
		}
	}
}

func TestWithARootFolderTheLibrariesAreThoseOfTheSystemInIt(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	head, err := describe(shell)
	if err != nil || head.interpreter == "" {
		t.Fatalf("%s is static, so that this machine has nothing to try: %v", shell, err)
	}
	here, _, err := Program(shell, "/bin/sh", "")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if _, _, err := Program(shell, "/bin/sh", root); err == nil {
		t.Error("an empty root folder has what a shell needs")
	}
	for _, file := range here[1:] {
		// A byte more than those of this machine, in a folder that only ld.so.conf names.
		place := filepath.Join(root, "opt/odd", filepath.Base(file.Path))
		if file.Path == head.interpreter {
			place = filepath.Join(root, file.Path)
		}
		keep(t, place, append(file.Content, 0))
	}
	keep(t, filepath.Join(root, "etc/ld.so.conf"), []byte("include /etc/ld.so.conf.d/*.conf\n"))
	keep(t, filepath.Join(root, "etc/ld.so.conf.d/odd.conf"), []byte("/opt/odd\n"))
	there, _, err := Program(shell, "/bin/sh", root)
	if err != nil {
		t.Fatal(err)
	}
	if len(there) != len(here) {
		t.Fatalf("%d files instead of %d", len(there), len(here))
	}
	for _, file := range there[1:] {
		if file.Content[len(file.Content)-1] != 0 || strings.Contains(file.Path, root) {
			t.Errorf("%s is not that of the root folder, or not at its place", file.Path)
		}
		if file.Path != head.interpreter && filepath.Dir(file.Path) != "/opt/odd" {
			t.Errorf("%s is where the loader does not look", file.Path)
		}
	}
}

func keep(t *testing.T, place string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNoProgramIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Program(file, "/script", ""); err == nil || !strings.Contains(err.Error(), "not a Linux program") {
		t.Errorf("a script gave %v", err)
	}
}

func TestATreeKeepsItsFoldersAndWhatIsExecutable(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"in/program": 0o700, "data": 0o600} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Tree(folder, "/opt/x")
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for _, file := range files {
		modes[file.Path] = file.Mode
	}
	if len(modes) != 2 || modes["/opt/x/in/program"] != 0o755 || modes["/opt/x/data"] != 0o644 {
		t.Errorf("got %v", modes)
	}
}
