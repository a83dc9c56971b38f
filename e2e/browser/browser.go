// Package browser drives one headless Chromium through its DevTools protocol, over a pair of pipes. It knows pages, cookies and pictures;
// it never sends a request by itself.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// answerLimit bounds how long Chromium takes to answer a command. While a page is replaced by one of another host it loses some: who
// waits for a page asks again.
const answerLimit = 10 * time.Second

// heldLimit bounds the time until a request is paused.
const heldLimit = 30 * time.Second

// Options say which addresses and certificates a browser takes.
type Options struct {
	// Program is Chromium.
	Program string
	// Resolve are rules such as "MAP *.shop.example 10.11.0.1".
	Resolve string
	// Keys are SHA-256 fingerprints of the public keys, in base64, whose certificates are taken for valid.
	Keys string
}

// Browser is a running Chromium with one page.
type Browser struct {
	command *exec.Cmd
	profile string
	in      io.WriteCloser
	session string

	lock    sync.Mutex
	last    int
	waiting map[int]chan answer
	// paused are requests that wait for Continue.
	paused chan string
	broken error
}

type answer struct {
	result json.RawMessage
	err    error
}

// Start starts Chromium with an empty profile and one empty page.
func Start(ctx context.Context, options Options) (*Browser, error) {
	profile, err := os.MkdirTemp("", "fairway-browser")
	if err != nil {
		return nil, fmt.Errorf("make a profile for Chromium: %w", err)
	}
	b := &Browser{profile: profile, waiting: map[int]chan answer{}, paused: make(chan string, 16)}
	if err := b.start(ctx, options); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Browser) start(ctx context.Context, options Options) error {
	// Root, as whom testbeds run, has no sandbox in Chromium, and a container often has a small /dev/shm.
	b.command = exec.Command(options.Program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=900,600", "--remote-debugging-pipe",
		"--user-data-dir="+b.profile, "--host-resolver-rules="+options.Resolve, "--ignore-certificate-errors-spki-list="+options.Keys, "about:blank")
	// All processes of Chromium are in its process group and end with it.
	b.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	commands, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe to Chromium: %w", err)
	}
	out, answers, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe from Chromium: %w", err)
	}
	b.in = in
	// Chromium reads commands from descriptor 3 and writes responses to 4.
	b.command.ExtraFiles = []*os.File{commands, answers}
	if err := b.command.Start(); err != nil {
		return fmt.Errorf("start Chromium (Debian: apt-get install chromium): %w", err)
	}
	_, _ = commands.Close(), answers.Close()
	go b.read(out)
	return b.attach(ctx)
}

// attach opens a session with the one page.
func (b *Browser) attach(ctx context.Context) error {
	var target struct{ TargetID string }
	if err := b.call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	b.session = attached.SessionID
	return b.call(ctx, "Page.enable", nil, nil)
}

// read delivers responses to their callers until Chromium ends.
func (b *Browser) read(out io.ReadCloser) {
	defer out.Close()
	reader := bufio.NewReader(out)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			b.closeWith(fmt.Errorf("Chromium has ended: %w", err))
			return
		}
		var message struct {
			ID     int
			Method string
			Params struct{ RequestID string }
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(text[:len(text)-1], &message); err != nil {
			b.closeWith(fmt.Errorf("read a message of Chromium: %w", err))
			return
		}
		if message.Method == "Fetch.requestPaused" {
			b.paused <- message.Params.RequestID
		}
		b.lock.Lock()
		waiting := b.waiting[message.ID]
		delete(b.waiting, message.ID)
		b.lock.Unlock()
		if waiting == nil {
			continue
		}
		got := answer{result: message.Result}
		if message.Error != nil {
			got.err = errors.New(message.Error.Message)
		}
		waiting <- got
	}
}

func (b *Browser) closeWith(err error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.broken = err
	for id, waiting := range b.waiting {
		waiting <- answer{err: err}
		delete(b.waiting, id)
	}
}

// call sends a command and stores Chromium's response in result, unless that is nil.
func (b *Browser) call(ctx context.Context, method string, params map[string]any, result any) error {
	waiting := make(chan answer, 1)
	b.lock.Lock()
	b.last++
	id := b.last
	b.waiting[id] = waiting
	broken := b.broken
	b.lock.Unlock()
	if broken != nil {
		return broken
	}
	if params == nil {
		params = map[string]any{}
	}
	command := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return fmt.Errorf("write the command %s: %w", method, err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return fmt.Errorf("send Chromium %s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("Chromium does not answer %s: %w", method, ctx.Err())
	case got := <-waiting:
		if got.err != nil {
			return fmt.Errorf("Chromium answers %s: %w", method, got.err)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(got.result, result); err != nil {
			return fmt.Errorf("read what Chromium answers %s: %w", method, err)
		}
		return nil
	}
}

// Open goes to an address, as a user who types it, and waits for the response.
func (b *Browser) Open(ctx context.Context, url string) error {
	var opened struct{ ErrorText string }
	if err := b.call(ctx, "Page.navigate", map[string]any{"url": url}, &opened); err != nil {
		return err
	}
	if opened.ErrorText != "" {
		return fmt.Errorf("open %s: %s", url, opened.ErrorText)
	}
	return nil
}

// Begin goes to an address without waiting for a response: for paused requests and unresponsive servers.
func (b *Browser) Begin(ctx context.Context, url string) error {
	text, err := json.Marshal(url)
	if err != nil {
		return fmt.Errorf("write an address: %w", err)
	}
	return b.Evaluate(ctx, "void(location.href="+string(text)+")", nil)
}

// Evaluate runs a script in the page, waits for it if it is a promise, and puts its value into result, unless that is nil.
func (b *Browser) Evaluate(ctx context.Context, script string, result any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	arguments := map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}
	if err := b.call(ctx, "Runtime.evaluate", arguments, &got); err != nil {
		return err
	}
	if thrown := got.ExceptionDetails; thrown != nil {
		return fmt.Errorf("the page throws %s %s", thrown.Text, thrown.Exception.Description)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(got.Result.Value, result); err != nil {
		return fmt.Errorf("read the value of %s: %w", script, err)
	}
	return nil
}

// Cookie is one that the browser keeps.
type Cookie struct {
	Name, Value, Domain, Path string
	Secure, HTTPOnly          bool
}

// Cookies are all that the browser keeps.
func (b *Browser) Cookies(ctx context.Context) ([]Cookie, error) {
	var got struct{ Cookies []Cookie }
	err := b.call(ctx, "Storage.getCookies", nil, &got)
	return got.Cookies, err
}

// Forget removes all cookies.
func (b *Browser) Forget(ctx context.Context) error {
	return b.call(ctx, "Storage.clearCookies", nil, nil)
}

// Hold holds up every request whose address matches a pattern such as "*/callback*", until it is let go.
func (b *Browser) Hold(ctx context.Context, pattern string) error {
	return b.call(ctx, "Fetch.enable", map[string]any{"patterns": []map[string]any{{"urlPattern": pattern}}}, nil)
}

// AwaitHeld waits for a paused request, and returns its number.
func (b *Browser) AwaitHeld(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, heldLimit)
	defer cancel()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("no request was held up: %w", ctx.Err())
	case id := <-b.paused:
		return id, nil
	}
}

// ContinueRequest continues the paused request, and pauses no others.
func (b *Browser) ContinueRequest(ctx context.Context, id string) error {
	if err := b.call(ctx, "Fetch.continueRequest", map[string]any{"requestId": id}, nil); err != nil {
		return err
	}
	return b.call(ctx, "Fetch.disable", nil, nil)
}

// Picture writes what the page shows into a PNG file.
func (b *Browser) Picture(ctx context.Context, path string) error {
	var got struct{ Data string }
	if err := b.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &got); err != nil {
		return err
	}
	picture, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		return fmt.Errorf("read a picture of Chromium: %w", err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		return fmt.Errorf("keep a picture: %w", err)
	}
	return nil
}

// Close ends Chromium and removes its profile.
func (b *Browser) Close() {
	if b.in != nil {
		_ = b.in.Close() // the process is killed anyway
	}
	if b.command != nil && b.command.Process != nil {
		_ = syscall.Kill(-b.command.Process.Pid, syscall.SIGKILL) // gone already, at worst
		_ = b.command.Wait()                                      // killed: it always says so
	}
	_ = os.RemoveAll(b.profile) // in the folder for temporary files
}
