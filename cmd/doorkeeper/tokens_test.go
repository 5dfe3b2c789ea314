package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"doorkeeper/admin"
	"doorkeeper/tokens"
)

func TestTokensUsage(t *testing.T) {
	g := writeFiles(t, func(text string) string {
		return strings.Replace(text, "instance: gateway-1", "instance: 'of another machine'", 1) // wrong, and not looked at
	})
	everywhere := writeFiles(t, func(text string) string {
		_, port, _ := strings.Cut(freeAddress(t), ":")
		return text[:strings.Index(text, "admin: {")] + "admin: {address: '0.0.0.0:" + port + "'}\n"
	})
	wrong := writeFiles(t, func(text string) string { return text + "log: {level: x}\n" + "timeouts: {drain: x}\n" })
	if err := os.WriteFile(wrong.config(), []byte("admin: {address: nowhere}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		about string
		args  []string
		code  int
		says  string
	}{
		{"no gateway", []string{"list"}, exitUsage, "--config, or its admin address with --admin"},
		{"no owner", []string{"expire"}, exitUsage, "<owner>"},
		{"an owner with its type", []string{"expire", "User:alice", "--config", g.config()}, exitUsage, `write the owner's name alone: "alice"`},
		{"a file that is wrong there", []string{"list", "--config", wrong.config()}, exitUsage, "admin.address"},
		{"no file", []string{"list", "--config", g.dir + "/absent"}, exitUsage, "no such file"},
		{"no address", []string{"list", "--admin", "localhost"}, exitUsage, "--admin: "},
		{"another scheme", []string{"list", "--admin", "ftp://localhost:1"}, exitUsage, "neither http:// nor https://"},
		{"a path", []string{"list", "--admin", "http://localhost:1/tokens"}, exitUsage, "--admin: "},
		{"a gateway that does not run", []string{"list", "--config", g.config()}, exitFailure, "http://" + g.admin + ": "},
		{"one that listens everywhere", []string{"list", "--config", everywhere.config()}, exitFailure, "http://127.0.0.1:"},
		{"the cure", []string{"expire", "alice", "--config", g.config()}, exitFailure, "does the gateway run"},
		{"an address before a file", []string{"list", "--config", everywhere.config(), "--admin", g.admin}, exitFailure, "http://" + g.admin + ": "},
	} {
		t.Run(row.about, func(t *testing.T) {
			var out, errs output
			code := run(t.Context(), environment{args: append([]string{"tokens"}, row.args...), stdout: &out, stderr: &errs})
			if code != row.code || !strings.Contains(errs.String(), row.says) {
				t.Errorf("code %d\n%s%s", code, &out, &errs)
			}
		})
	}
}

// Whatever answers at the address, the command ends with one line that says what it
// was.
func TestTokensOfSomethingElse(t *testing.T) {
	for _, row := range []struct {
		about string
		serve http.HandlerFunc
		says  string
	}{
		{"an older gateway", http.NotFound, "answered 404 Not Found: 404 page not found; is that"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>\n\x1b[31m") }, "something else than a gateway does"},
		{"an error with colours", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "\x1b[31mred\nline", http.StatusInternalServerError)
		}, `\u001b[31mred; line`},
		{"another place", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "answered 302"},
		{"a forged problem", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"error": {"code": "x", "text": "a\nb\u001b", "cure": "c"}}`)
		}, `a; b\u001b; c`},
		{"nothing", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(row.about, func(t *testing.T) {
			server := httptest.NewServer(row.serve)
			defer server.Close()
			for _, args := range [][]string{{"list"}, {"list", "--json"}, {"expire", "alice"}} {
				var out, errs output
				code := run(t.Context(), environment{args: append(append([]string{"tokens"}, args...), "--admin", server.URL), stdout: &out, stderr: &errs})
				if code != exitFailure || !strings.Contains(errs.String(), row.says) || strings.Count(errs.String(), "\n") != 1 || strings.Contains(errs.String(), "\x1b") {
					t.Errorf("%v: code %d, %q", args, code, errs.String())
				}
				var failed admin.Failed
				if wanted := len(args) > 1 && args[1] == "--json"; wanted && (json.Unmarshal([]byte(out.String()), &failed) != nil || failed.Problem == nil) || !wanted && out.String() != "" {
					t.Errorf("%v: %s", args, &out)
				}
			}
		})
	}
}

// What the command sends is what the gateway wants to see, and goes through no proxy.
func TestTokensRequests(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		_, _ = fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	for _, args := range [][]string{{"list"}, {"expire", "alice"}} {
		var out, errs output
		if code := run(t.Context(), environment{args: append(append([]string{"tokens"}, args...), "--admin", server.URL), stdout: &out, stderr: &errs}); code != exitOK {
			t.Fatalf("%v: %d %s", args, code, &errs)
		}
		r := <-seen
		want := map[string]string{"list": "GET /tokens ", "expire": "POST /tokens/expire application/json"}[args[0]]
		if got := r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type"); got != want || r.Header.Get(admin.RequestHeader) == "" || r.Header.Get("Origin") != "" {
			t.Errorf("%s, %v", got, r.Header)
		}
	}
}

func TestTokensEndWithASignal(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(over)
	signals := make(chan os.Signal, 2)
	go func() {
		<-asked
		signals <- syscall.SIGHUP // does not count
		signals <- syscall.SIGINT
	}()
	var out, errs output
	code := run(t.Context(), environment{args: []string{"tokens", "expire", "alice", "--admin", server.URL}, signals: signals, stdout: &out, stderr: &errs})
	if code != checkInterrupted || !strings.Contains(errs.String(), "goes on with what was asked") {
		t.Errorf("code %d, %s", code, &errs)
	}
}

func TestTokensAreShown(t *testing.T) {
	show := func(l admin.Listing) string {
		var b bytes.Buffer
		showListing(terminal{Writer: &b}, &l)
		return b.String()
	}
	got := show(admin.Listing{Instance: "gw", Owners: []admin.Owner{
		{Name: "a", State: "live", Sessions: 1, Token: &admin.Token{Age: 61.9, Left: 86000, Ready: []int32{3, 1, 2, 7}}},
		{Name: "CN=b, O=c", State: "failed", Failure: "refused;\ngrant it", RetryIn: 4.2},
		{Own: true, State: "creating"},
	}})
	want := "OWNER                 STATE     AGE   LEFT       BROKERS READY  SESSIONS\n" +
		"a                     live      1m1s  23h53m20s  1-3,7          1\n" +
		"CN=b, O=c             failed    -     -          -              0\n" +
		"(the gateway itself)  creating  -     -          -              0\n" +
		"3 owners, 1 session at gw\n" +
		"CN=b, O=c: refused;; grant it; next attempt in 4s\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, row := range []struct {
		done admin.Expired
		want string
	}{
		{admin.Expired{Token: true, Sessions: 1}, "a: its token is expired, and 1 session was ended\n"},
		{admin.Expired{Token: true}, "a: its token is expired, and no session was there to end\n"},
		{admin.Expired{Sessions: 3, Ending: 2}, "a: there was no token to expire, and 3 sessions were ended\n2 of them were not closed yet when the time was over; the log says when they are\n"},
	} {
		var b bytes.Buffer
		if showExpired(terminal{Writer: &b}, "a", &row.done); b.String() != row.want {
			t.Errorf("%+v: %q", row.done, b.String())
		}
	}
	for ids, want := range map[string][]int32{"-": nil, "5": {5, 5}, "1-2": {2, 1}, "-3,0-1": {0, 1, -3}, "2147483646-2147483647": {math.MaxInt32, math.MaxInt32 - 1}} {
		if got := nodeRanges(want); got != ids {
			t.Errorf("%v: %q", want, got)
		}
	}
}

// An operator is told what was done, what was not, and what to do.
func TestOperatorsProblems(t *testing.T) {
	for _, row := range []struct {
		err  error
		code admin.ProblemCode
		says string
	}{
		{&tokens.Error{Phase: tokens.PhaseExpire, Reason: tokens.ReasonNotHeld, Owner: "a"}, admin.ProblemUnknownOwner, "neither a token nor a session"},
		{&tokens.Error{Phase: tokens.PhaseAcquire, Reason: tokens.ReasonStopped}, admin.ProblemStopping, "stops"},
		{&tokens.Error{Phase: tokens.PhaseExpire, Reason: tokens.ReasonTimeout, Err: context.DeadlineExceeded, Retry: true, Lost: true}, admin.ProblemTimeout, "is not known"},
		{&tokens.Error{Phase: tokens.PhaseExpire, Reason: tokens.ReasonTimeout, Err: context.DeadlineExceeded, Retry: true}, admin.ProblemTimeout, "nothing was expired"},
		{errors.Join(&tokens.Error{Phase: tokens.PhaseExpire, Reason: tokens.ReasonOwnerMismatch, Code: 63, Cure: "map it"}), admin.ProblemKafka, "still good, and no session was ended: map it"},
		{&tokens.Error{Phase: tokens.PhaseExpire, Reason: tokens.ReasonUnreachable, Node: tokens.NoNode, Retry: true, Err: errors.New("refused")}, admin.ProblemKafka, "expire a token: unreachable: refused; the token is still good"},
	} {
		var p *admin.Problem
		if err := operatorProblem(row.err); !errors.As(err, &p) || p.Code != row.code || !strings.Contains(p.Error(), row.says) || strings.Contains(p.Error(), "will be retried") {
			t.Errorf("%v: %v", row.err, err)
		}
	}
}

// FuzzTokensAnswer: whatever a gateway, or something in its place, answers, what is
// shown is lines that fit, without a character that a terminal obeys.
func FuzzTokensAnswer(f *testing.F) {
	f.Add(200, []byte(`{"instance":"gw","owners":[{"owner":"alice","state":"live","token":{"id":"x","age_seconds":1e300,"left_seconds":-1,"brokers_ready":[1,2,-5]},"sessions":2,"failure":"f\u001b","retry_in_seconds":1}]}`))
	f.Add(200, []byte(`{"owners":[{"owner":"\u001b[31m\u202e\t\n\u0000","own":true,"token":{}}, {}]}`))
	f.Add(404, []byte(`{"error":{"code":"unknown_owner","text":"a\nb"}}`))
	f.Add(500, []byte("\x1b]0;x\x07"))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		var listing admin.Listing
		err := (&tokensDesk{base: "http://x"}).decode(status, text, &listing)
		if err != nil {
			if line := oneLine(err.Error()); strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", line)
			}
			return
		}
		var b bytes.Buffer
		showListing(terminal{Writer: &b}, &listing)
		wanted := 2 + len(listing.Owners)
		for _, o := range listing.Owners {
			if o.Failure != "" {
				wanted++
			}
		}
		if shown := b.String(); strings.Count(shown, "\n") != wanted || strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%d lines instead of %d: %q", strings.Count(shown, "\n"), wanted, shown)
		}
	})
}
