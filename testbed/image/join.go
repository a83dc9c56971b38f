package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Join writes an archive of one OCI index, in which each architecture's image comes from an archive of its own.
func Join(out io.Writer, name string, archives []string) error {
	contents := blobs{}
	var images []descriptor
	from := map[platform]string{}
	for _, archive := range archives {
		found, err := contents.read(archive)
		if err != nil {
			return fmt.Errorf("read image archive %s: %w", archive, err)
		}
		if other, known := from[*found.Platform]; known {
			return fmt.Errorf("%s and %s are both images for %s", other, archive, found.Platform.Architecture)
		}
		from[*found.Platform] = archive
		found.Annotations = nil
		images = append(images, found)
	}
	all, err := contents.addJSON(indexType, index(images...))
	if err != nil {
		return err
	}
	all.Annotations = named(name)
	return contents.write(out, document{"index.json", index(all)})
}

// read adds the blobs of an archive that Write wrote, and gives its image.
func (b blobs) read(archive string) (descriptor, error) {
	file, err := os.Open(archive)
	if err != nil {
		return descriptor{}, err
	}
	defer file.Close()
	var top struct {
		Manifests []descriptor `json:"manifests"`
	}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return descriptor{}, err
		}
		digest, isBlob := strings.CutPrefix(header.Name, "blobs/sha256/")
		if !isBlob && header.Name != "index.json" {
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return descriptor{}, err
		}
		if isBlob {
			b["sha256:"+digest] = content
		} else if err := json.Unmarshal(content, &top); err != nil {
			return descriptor{}, err
		}
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Platform == nil {
		return descriptor{}, errors.New("it is not an archive of one image, as testbed image build writes it")
	}
	return top.Manifests[0], nil
}
