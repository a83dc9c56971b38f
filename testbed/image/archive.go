// Package image writes container images without a container engine: an OCI image layout in a tar archive, which also
// carries the `manifest.json` that Docker and podman load. The same inputs give the same bytes: times are fixed, entries
// are sorted, nothing of the machine that built it is recorded. It never runs what it packs.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// Spec is the content of an image and its command.
type Spec struct {
	// Name is the reference it is loaded under, with its tag: registry.example/fairway:v1.
	Name         string
	Architecture string
	Entrypoint   []string
	Command      []string
	Environment  []string
	User         string
	WorkingDir   string
	Labels       map[string]string
	Files        []File
	// Gzip compresses the layer, for an image that goes to a registry.
	Gzip bool
}

// File is one regular file of the image.
type File struct {
	// Path is absolute inside of the image.
	Path    string
	Mode    int64
	Content []byte
}

const (
	layerType    = "application/vnd.oci.image.layer.v1.tar"
	gzipType     = layerType + "+gzip"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// epoch is the time of everything in an image: images do not depend on the time of the build.
var epoch = time.Unix(0, 0).UTC()

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type runConfig struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

// blobs are the contents of an archive by digest.
type blobs map[string][]byte

func (b blobs) add(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	b[digest] = content
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(content)}
}

func (b blobs) addJSON(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, fmt.Errorf("write %s: %w", mediaType, err)
	}
	return b.add(mediaType, content), nil
}

func blobPath(digest string) string {
	return "blobs/" + strings.Replace(digest, ":", "/", 1)
}

// Write writes the archive of the image that spec describes.
func Write(out io.Writer, spec Spec) error {
	if !strings.Contains(spec.Name[strings.LastIndex(spec.Name, "/")+1:], ":") {
		return fmt.Errorf("image name %q has no tag; Kubernetes would look for :latest and try to pull it: name it like %s:v1",
			spec.Name, cmp.Or(spec.Name, "registry.example/program"))
	}
	layerContent, err := layer(spec.Files)
	if err != nil {
		return err
	}
	contents := blobs{}
	unpacked := sha256.Sum256(layerContent)
	layer, err := contents.addLayer(layerContent, spec.Gzip)
	if err != nil {
		return err
	}
	config, err := contents.addJSON(configType, map[string]any{
		"created":      epoch.Format(time.RFC3339),
		"architecture": spec.Architecture,
		"os":           "linux",
		"config": runConfig{
			User: spec.User, Env: environment(spec.Environment), Entrypoint: spec.Entrypoint,
			Cmd: spec.Command, WorkingDir: spec.WorkingDir, Labels: spec.Labels,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(unpacked[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := contents.addJSON(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layer},
	})
	if err != nil {
		return err
	}
	manifest.Platform = &platform{Architecture: spec.Architecture, OS: "linux"}
	manifest.Annotations = named(spec.Name)
	return contents.write(out, document{"index.json", index(manifest)}, document{"manifest.json", []map[string]any{{
		"Config": blobPath(config.Digest), "RepoTags": []string{spec.Name}, "Layers": []string{blobPath(layer.Digest)},
	}}})
}

func (b blobs) addLayer(content []byte, compress bool) (descriptor, error) {
	if !compress {
		return b.add(layerType, content), nil
	}
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := writer.Write(content); err != nil {
		return descriptor{}, fmt.Errorf("compress the layer: %w", err)
	}
	if err := writer.Close(); err != nil {
		return descriptor{}, fmt.Errorf("compress the layer: %w", err)
	}
	return b.add(gzipType, compressed.Bytes()), nil
}

// named are the annotations of what an archive is loaded as.
func named(name string) map[string]string {
	return map[string]string{
		// containerd takes the whole name from its own annotation; the other one is podman's.
		"io.containerd.image.name":          name,
		"org.opencontainers.image.ref.name": name,
	}
}

func index(manifests ...descriptor) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests}
}

// document is a file of an archive that says where to begin.
type document struct {
	path  string
	value any
}

// write writes an archive of these blobs and the documents that name them.
func (b blobs) write(out io.Writer, documents ...document) error {
	var files []File
	for _, document := range append(documents, document{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}}) {
		content, err := json.Marshal(document.value)
		if err != nil {
			return fmt.Errorf("write %s: %w", document.path, err)
		}
		files = append(files, File{Path: document.path, Mode: 0o644, Content: content})
	}
	for digest, content := range b {
		files = append(files, File{Path: blobPath(digest), Mode: 0o644, Content: content})
	}
	return writeTar(out, nil, files)
}

func environment(given []string) []string {
	for _, variable := range given {
		if strings.HasPrefix(variable, "PATH=") {
			return given
		}
	}
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, given...)
}

// layer is the file system of an image: the files, their folders, and those that programs expect to be there.
func layer(files []File) ([]byte, error) {
	folders := map[string]int64{"tmp": 0o1777}
	for _, expected := range []string{"dev", "etc", "proc", "sys", "run", "var"} {
		folders[expected] = 0o755
	}
	seen := map[string]bool{}
	relative := make([]File, 0, len(files))
	for _, file := range files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) == "/" {
			return nil, fmt.Errorf("file %q of the image: its path must be absolute", file.Path)
		}
		file.Path = strings.TrimPrefix(path.Clean(file.Path), "/")
		if seen[file.Path] {
			return nil, fmt.Errorf("file /%s is given to the image twice", file.Path)
		}
		seen[file.Path] = true
		relative = append(relative, file)
		for folder := path.Dir(file.Path); folder != "."; folder = path.Dir(folder) {
			if _, known := folders[folder]; !known {
				folders[folder] = 0o755
			}
		}
	}
	var content bytes.Buffer
	if err := writeTar(&content, folders, relative); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

func writeTar(out io.Writer, folders map[string]int64, files []File) error {
	archive := tar.NewWriter(out)
	names := make([]string, 0, len(folders))
	for name := range folders {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: folders[name], ModTime: epoch, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write folder %s of the archive: %w", name, err)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, file := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: file.Path, Mode: file.Mode, Size: int64(len(file.Content)),
			ModTime: epoch, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s of the archive: %w", file.Path, err)
		}
		if _, err := archive.Write(file.Content); err != nil {
			return fmt.Errorf("write %s of the archive: %w", file.Path, err)
		}
	}
	return archive.Close()
}
