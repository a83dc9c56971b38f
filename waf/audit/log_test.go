package audit

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogGoesOnInANewFileAfterItWasMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := Open(path, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := log.Reopen(); err != nil {
		t.Fatal(err)
	}
	log.Write(&Entry{ID: "x"})
	log.Close()
	content, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(content), `"id":"x"`) || log.Written() != 1 || log.Dropped() != 0 {
		t.Errorf("%v: %s", err, content)
	}
}

func TestLineThatCannotBeWrittenIsCounted(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	log, err := Open("/dev/full", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	log.Write(&Entry{ID: "x"})
	log.Close()
	if log.Dropped() != 1 {
		t.Errorf("%d dropped", log.Dropped())
	}
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for _, test := range []struct {
		text  string
		bytes int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aé", 2, "a…"}, {"\xff\xff\xff", 1, "\xff…"}} {
		if cut := Cut(test.text, test.bytes); cut != test.want {
			t.Errorf("%q: %q", test.text, cut)
		}
	}
}

func TestPrivateVariables(t *testing.T) {
	for variable, private := range map[string]bool{
		"REQUEST_HEADERS:Authorization": true, "REQUEST_HEADERS:cookie": true, "RESPONSE_HEADERS:Set-Cookie": true, "REQUEST_COOKIES:theme": true,
		"ARGS_POST:new_password": true, "ARGS:access_token": true, "REQUEST_HEADERS:X-Api-Key": true,
		"REQUEST_HEADERS:user-agent": false, "ARGS:q": false, "REQUEST_COOKIES_NAMES:a": false,
	} {
		name, key, _ := strings.Cut(variable, ":")
		if isPrivate(name, key) != private {
			t.Errorf("%s", variable)
		}
	}
}
