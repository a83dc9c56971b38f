package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// architectures are the machines of ELF files in the words of the OCI image specification.
var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// Program reads a program for an image: itself at `destination`, and when it is linked dynamically its loader and every
// library that it and they need, found where the loader of this machine would find them; with a `root` folder, where that
// of the system in it would.
func Program(source, destination, root string) (files []File, architecture string, err error) {
	content, err := os.ReadFile(source)
	if err != nil {
		return nil, "", fmt.Errorf("read the program of the image: %w", err)
	}
	head, err := describe(source)
	if err != nil {
		return nil, "", err
	}
	files = []File{{Path: destination, Mode: 0o755, Content: content}}
	if head.interpreter == "" {
		return files, head.architecture, nil
	}
	libraries, err := libraries(source, root, head)
	if err != nil {
		return nil, "", err
	}
	return append(files, libraries...), head.architecture, nil
}

// Tree reads a file, or a folder with all in it, for an image.
func Tree(source, destination string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		status, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if status.Mode()&0o111 != 0 {
			mode = 0o755
		}
		files = append(files, File{Path: filepath.Join(destination, relative), Mode: mode, Content: content})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s for the image: %w", source, err)
	}
	return files, nil
}

// object is what the loader would read of an ELF file.
type object struct {
	architecture string
	machine      elf.Machine
	interpreter  string
	needed       []string
	searched     []string
}

func describe(source string) (object, error) {
	file, err := elf.Open(source)
	if err != nil {
		return object{}, fmt.Errorf("%s is not a Linux program: %w", source, err)
	}
	defer file.Close()
	architecture, known := architectures[file.Machine]
	if !known {
		return object{}, fmt.Errorf("%s is built for %s; images are made for amd64 and arm64", source, file.Machine)
	}
	found := object{architecture: architecture, machine: file.Machine}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			name := make([]byte, segment.Filesz)
			if _, err := segment.ReadAt(name, 0); err != nil {
				return object{}, fmt.Errorf("read the loader of %s: %w", source, err)
			}
			found.interpreter = strings.TrimRight(string(name), "\x00")
		}
	}
	if found.needed, err = file.DynString(elf.DT_NEEDED); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return object{}, fmt.Errorf("read the libraries that %s needs: %w", source, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		paths, err := file.DynString(tag)
		if err != nil {
			return object{}, fmt.Errorf("read the library path of %s: %w", source, err)
		}
		for _, path := range strings.Split(strings.Join(paths, ":"), ":") {
			if path != "" {
				found.searched = append(found.searched, strings.ReplaceAll(path, "$ORIGIN", filepath.Dir(source)))
			}
		}
	}
	return found, nil
}

// libraries are the loader at the path that the program names, and what it and its libraries need, all in the one folder
// that the C library was found in: the loader looks there without a cache or LD_LIBRARY_PATH.
func libraries(program, root string, head object) ([]File, error) {
	content, err := os.ReadFile(filepath.Join(root, head.interpreter))
	if err != nil {
		return nil, fmt.Errorf("read the loader that %s names: %w", program, err)
	}
	files := []File{{Path: head.interpreter, Mode: 0o755, Content: content}}
	loader := filepath.Base(head.interpreter)
	places := map[string]string{}
	queue := []object{head}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		for _, name := range next.needed {
			if _, known := places[name]; known || name == loader {
				continue
			}
			place, found, err := locate(name, root, head, next.searched)
			if err != nil {
				return nil, fmt.Errorf("%s needs %s: %w", program, name, err)
			}
			places[name] = place
			queue = append(queue, found)
		}
	}
	folder := "/lib"
	for name, place := range places {
		if strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc.musl") {
			folder = "/" + strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(place), root), "/")
		}
	}
	for name, place := range places {
		content, err := os.ReadFile(place)
		if err != nil {
			return nil, fmt.Errorf("read library %s: %w", name, err)
		}
		files = append(files, File{Path: filepath.Join(folder, name), Mode: 0o755, Content: content})
	}
	return files, nil
}

// locate finds a library of the program's own architecture.
func locate(name, root string, program object, searched []string) (string, object, error) {
	if root != "" {
		// What a program outside of the folder names is none of its places.
		searched = nil
	}
	for _, folder := range slices.Concat(searched, configured(root, "/etc/ld.so.conf"),
		[]string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", filepath.Dir(program.interpreter)}) {
		place := filepath.Join(root, folder, name)
		if _, err := os.Stat(place); err != nil {
			continue
		}
		if found, err := describe(place); err == nil && found.machine == program.machine {
			return place, found, nil
		}
	}
	return "", object{}, errors.New("no folder of /etc/ld.so.conf and no default one has it; link the program statically or install the library")
}

// configured are the folders of ld.so.conf(5) of the system in `root`, with the files it includes.
func configured(root, path string) []string {
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		// A system without the file has the default folders only.
		return nil
	}
	var folders []string
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if pattern, included := strings.CutPrefix(line, "include "); included {
			matches, err := filepath.Glob(filepath.Join(root, strings.TrimSpace(pattern)))
			if err != nil {
				continue
			}
			for _, match := range matches {
				folders = append(folders, configured(root, strings.TrimPrefix(match, root))...)
			}
		} else if filepath.IsAbs(line) {
			folders = append(folders, line)
		}
	}
	return folders
}
