package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"doorkeeper/internal/certtest"
)

// desk is a server with pages of tokens under test.
type desk struct {
	t       *testing.T
	server  *Server
	address string
	client  *http.Client
	scheme  string
	calls   atomic.Int64 // of Expire
	expire  func(ctx context.Context, owner string) (Expired, error)
	log     *observer.ObservedLogs
	stop    context.CancelFunc
	done    chan error
}

// newDesk serves c; change may alter the server before it listens.
func newDesk(t *testing.T, c Config, change func(*Server)) *desk {
	t.Helper()
	d := &desk{t: t, scheme: "http", done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	core, logs := observer.New(zap.DebugLevel)
	d.log = logs
	d.expire = func(_ context.Context, owner string) (Expired, error) {
		return Expired{Token: true, Sessions: len(owner)}, nil
	}
	if c.Tokens == nil {
		c.Tokens = new(Tokens)
	}
	c.Tokens.Instance = "gateway-1"
	c.Tokens.List = func() []Owner {
		return []Owner{{Name: "alice", State: "live", Held: 1, Sessions: 2, Token: &Token{ID: "id", Age: 1.5, Left: 2, Ready: []int32{1, 3}}}}
	}
	c.Tokens.Expire = func(ctx context.Context, owner string) (Expired, error) {
		d.calls.Add(1)
		return d.expire(ctx, owner)
	}
	c.Address, c.Metrics, c.Logger = "127.0.0.1:0", NewMetrics(), zap.New(core)
	d.server = New(c)
	if err := d.server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !d.server.loopback {
		t.Error("127.0.0.1 is not taken for loopback")
	}
	if change != nil {
		change(d.server)
	}
	if c.TLS != nil {
		d.scheme = "https"
	}
	d.address = d.server.Addr().String()
	var ctx context.Context
	ctx, d.stop = context.WithCancel(t.Context())
	go func() { d.done <- d.server.Run(ctx) }()
	t.Cleanup(func() {
		d.stop()
		if err := <-d.done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return d
}

// ask sends a request as doorkeeper tokens does, but for what change does to it.
func (d *desk) ask(method, path, body string, change func(*http.Request)) (int, []byte, http.Header) {
	d.t.Helper()
	code, answer, header, err := d.try(d.t.Context(), method, path, body, change)
	if err != nil {
		d.t.Fatal(err)
	}
	return code, answer, header
}

func (d *desk) try(ctx context.Context, method, path, body string, change func(*http.Request)) (int, []byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, method, d.scheme+"://"+d.address+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set(RequestHeader, "1")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, resp.Header, err
}

// problem is the code in an answer.
func problem(t *testing.T, body []byte) ProblemCode {
	t.Helper()
	var f Failed
	if err := json.Unmarshal(body, &f); err != nil || f.Problem == nil || f.Problem.Text == "" {
		t.Fatalf("%s: %v", body, err)
	}
	return f.Problem.Code
}

const expireAlice = `{"owner": "alice"}`

func TestTokensOnLoopback(t *testing.T) {
	d := newDesk(t, Config{}, nil)
	code, body, header := d.ask(http.MethodGet, PathTokens, "", nil)
	want := `{"instance":"gateway-1","owners":[{"owner":"alice","state":"live","token":{"id":"id","age_seconds":1.5,"left_seconds":2,"brokers_ready":[1,3]},"tokens":1,"sessions":2}]}` + "\n"
	if code != 200 || string(body) != want || header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s %v", code, body, header)
	}
	code, body, _ = d.ask(http.MethodPost, PathExpire, expireAlice, nil)
	if want := `{"owner":"alice","token_expired":true,"sessions_ended":5,"sessions_ending":0}` + "\n"; code != 200 || string(body) != want {
		t.Errorf("%d %s", code, body)
	}
	said := d.log.FilterMessage("an operator had an owner's token expired").All()
	if len(said) != 1 || said[0].ContextMap()["owner"] != "alice" || said[0].ContextMap()["by"] != onThisMachine || said[0].ContextMap()["sessions_ended"] != int64(5) {
		t.Errorf("logged %+v", said)
	}
}

// Threats of the admin address: what a web page can make a browser of this machine
// send, by another name for loopback (DNS rebinding) or across sites, does nothing.
func TestTokensAreNotForBrowsers(t *testing.T) {
	d := newDesk(t, Config{}, nil)
	_, port, err := net.SplitHostPort(d.address)
	if err != nil {
		t.Fatal(err)
	}
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, row := range []struct {
		about, method, path, body string
		change                    func(*http.Request)
		status                    int
		code                      ProblemCode // "" for what is let through
	}{
		{"localhost", http.MethodPost, PathExpire, expireAlice, host("LocalHost:" + port), 200, ""},
		{"another loopback address", http.MethodPost, PathExpire, expireAlice, host("127.1.2.3"), 200, ""},
		{"IPv6", http.MethodPost, PathExpire, expireAlice, host("[::1]:" + port), 200, ""},
		{"mapped IPv4", http.MethodGet, PathTokens, "", host("[::ffff:127.0.0.1]:80"), 200, ""},
		{"with a character set", http.MethodPost, PathExpire, expireAlice, set("Content-Type", "application/json; charset=utf-8"), 200, ""},
		{"rebound", http.MethodGet, PathTokens, "", host("evil.example:" + port), 403, ProblemNotLocal},
		{"rebound to a name that looks right", http.MethodPost, PathExpire, expireAlice, host("localhost.evil.example"), 403, ProblemNotLocal},
		{"rebound to an address that looks right", http.MethodPost, PathExpire, expireAlice, host("127.0.0.1.evil.example"), 403, ProblemNotLocal},
		{"another address", http.MethodPost, PathExpire, expireAlice, host("192.0.2.1:" + port), 403, ProblemNotLocal},
		{"a form across sites", http.MethodPost, PathExpire, expireAlice, func(r *http.Request) {
			r.Header.Del(RequestHeader)
			r.Header.Set("Content-Type", "text/plain")
		}, 403, ProblemBrowser},
		{"an image across sites", http.MethodGet, PathTokens, "", func(r *http.Request) { r.Header.Del(RequestHeader) }, 403, ProblemBrowser},
		{"an origin", http.MethodPost, PathExpire, expireAlice, set("Origin", "http://localhost:"+port), 403, ProblemBrowser},
		{"an origin that is hidden", http.MethodPost, PathExpire, expireAlice, set("Origin", "null"), 403, ProblemBrowser},
		{"what browsers add", http.MethodGet, PathTokens, "", set("Sec-Fetch-Site", "same-origin"), 403, ProblemBrowser},
		{"a browser that asks first", http.MethodOptions, PathExpire, "", set("Access-Control-Request-Method", "POST"), 405, ProblemMethod},
		{"to expire with GET", http.MethodGet, PathExpire, "", nil, 405, ProblemMethod},
		{"to list with POST", http.MethodPost, PathTokens, "{}", nil, 405, ProblemMethod},
		{"a form", http.MethodPost, PathExpire, expireAlice, set("Content-Type", "application/x-www-form-urlencoded"), 415, ProblemMedia},
		{"no type", http.MethodPost, PathExpire, expireAlice, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, ProblemMedia},
		{"too much", http.MethodPost, PathExpire, `{"owner": "` + strings.Repeat("a", maxBody) + `"}`, nil, 413, ProblemTooLarge},
		{"too long", http.MethodPost, PathExpire, `{"owner": "` + strings.Repeat("a", maxOwner+1) + `"}`, nil, 400, ProblemBadRequest},
		{"nobody", http.MethodPost, PathExpire, `{"owner": ""}`, nil, 400, ProblemBadRequest},
		{"a type in front", http.MethodPost, PathExpire, `{"owner": "User:alice"}`, nil, 400, ProblemBadRequest},
		{"two", http.MethodPost, PathExpire, expireAlice + expireAlice, nil, 400, ProblemBadRequest},
		{"more than that", http.MethodPost, PathExpire, `{"owner": "alice", "all": true}`, nil, 400, ProblemBadRequest},
		{"no JSON", http.MethodPost, PathExpire, "alice", nil, 400, ProblemBadRequest},
	} {
		t.Run(row.about, func(t *testing.T) {
			before := d.calls.Load()
			code, body, header := d.ask(row.method, row.path, row.body, row.change)
			if code != row.status || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%d %s %v", code, body, header)
			}
			if row.code != "" && (problem(t, body) != row.code || d.calls.Load() != before) {
				t.Errorf("%s, %d calls", body, d.calls.Load()-before)
			}
		})
	}
}

// An address that others can reach has no such pages without TLS and operators, and
// the others go on.
func TestTokensAreNotShownToEverybody(t *testing.T) {
	d := newDesk(t, Config{}, func(s *Server) { s.loopback = false })
	for path, method := range map[string]string{PathTokens: http.MethodGet, PathExpire: http.MethodPost} {
		code, body, _ := d.ask(method, path, expireAlice, nil)
		if code != 404 || problem(t, body) != ProblemNotProtected || !strings.Contains(string(body), "admin.allow") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/"} {
		if code, body, _ := d.ask(http.MethodGet, path, "", nil); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if d.calls.Load() != 0 {
		t.Error("it was done all the same")
	}
	if n := d.log.FilterLevelExact(zap.WarnLevel).Len(); n != 0 {
		t.Errorf("anybody can fill the log: %d lines", n)
	}
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.255.0.9": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true, "LOCALHOST": true,
		"0.0.0.0": false, "::": false, "10.0.0.1": false, "": false, "localhost.example": false, "fe80::1": false,
	} {
		if isLoopback(host) != want {
			t.Errorf("isLoopback(%q) = %v", host, !want)
		}
	}
}

// S14: over TLS, those with a certificate of a name that may, on loopback too; probes
// and scrapers need none.
func TestTokensOverTLS(t *testing.T) {
	servers, operators := certtest.NewCA("servers"), certtest.NewCA("operators")
	config := &tls.Config{
		Certificates: []tls.Certificate{servers.Issue(certtest.Server("127.0.0.1")).TLS},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: certtest.Pool(operators),
	}
	who := func(cs tls.ConnectionState) (string, error) {
		if name := cs.VerifiedChains[0][0].Subject.CommonName; name != "ops" {
			return name, fmt.Errorf("%s is not in admin.allow", name)
		}
		return "ops", nil
	}
	d := newDesk(t, Config{TLS: config, Tokens: &Tokens{Who: who}}, nil)
	as := func(name string) {
		c := &tls.Config{RootCAs: certtest.Pool(servers)}
		if name != "" {
			c = operators.Issue(certtest.Leaf{CommonName: name, Usage: certtest.ClientOnly}).ClientConfig(servers)
		}
		c.ServerName = "127.0.0.1"
		d.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c}}
	}
	for _, row := range []struct {
		name   string
		status int
		code   ProblemCode
	}{
		{"", 403, ProblemCertificate},
		{"alice", 403, ProblemNotAllowed},
		{"ops", 200, ""},
	} {
		as(row.name)
		for _, path := range []string{"/metrics", "/livez", "/readyz", "/"} {
			if code, body, _ := d.ask(http.MethodGet, path, "", nil); code != 200 {
				t.Errorf("%q: %s: %d %s", row.name, path, code, body)
			}
		}
		for path, method := range map[string]string{PathTokens: http.MethodGet, PathExpire: http.MethodPost} {
			code, body, _ := d.ask(method, path, expireAlice, nil)
			if code != row.status || row.code != "" && problem(t, body) != row.code {
				t.Errorf("%q: %s: %d %s", row.name, path, code, body)
			}
		}
	}
	if n := d.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
	if said := d.log.FilterField(zap.String("by", "ops")).Len(); said != 1 {
		t.Errorf("%d lines name who did it", said)
	}
	// A browser may have the operator's certificate.
	if code, body, _ := d.ask(http.MethodPost, PathExpire, expireAlice, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); code != 403 || problem(t, body) != ProblemBrowser {
		t.Errorf("%d %s", code, body)
	}
	d.scheme = "http"
	if code, _, _, err := d.try(t.Context(), http.MethodGet, PathTokens, "", nil); err == nil && code != 400 {
		t.Errorf("without TLS: %d", code)
	}
}

// What goes wrong is told apart.
func TestExpireSaysWhatWentWrong(t *testing.T) {
	d := newDesk(t, Config{}, nil)
	for _, row := range []struct {
		err    error
		status int
		code   ProblemCode
	}{
		{&Problem{Code: ProblemUnknownOwner, Text: "nobody"}, 404, ProblemUnknownOwner},
		{fmt.Errorf("wrapped: %w", &Problem{Code: ProblemKafka, Text: "no", Cure: "ask nicely"}), 502, ProblemKafka},
		{errors.New("refused"), 502, ProblemKafka},
		{fmt.Errorf("late: %w", context.DeadlineExceeded), 504, ProblemTimeout},
		{&Problem{Code: ProblemStopping, Text: "stops"}, 503, ProblemStopping},
		{context.Canceled, 503, ProblemStopping},
		{&Problem{Code: "new", Text: "unheard of"}, 500, "new"},
	} {
		d.expire = func(context.Context, string) (Expired, error) { return Expired{}, row.err }
		if code, body, _ := d.ask(http.MethodPost, PathExpire, expireAlice, nil); code != row.status || problem(t, body) != row.code {
			t.Errorf("%v: %d %s", row.err, code, body)
		}
	}
}

// An expiry has more time than a page, and none beyond its own.
func TestExpireHasItsOwnTime(t *testing.T) {
	d := newDesk(t, Config{}, func(s *Server) {
		s.http.ReadTimeout, s.http.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
		s.expireWithin = 400 * time.Millisecond
	})
	d.expire = func(ctx context.Context, _ string) (Expired, error) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
		return Expired{}, ctx.Err()
	}
	if code, body, _ := d.ask(http.MethodPost, PathExpire, expireAlice, nil); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	d.expire = func(ctx context.Context, _ string) (Expired, error) {
		<-ctx.Done()
		return Expired{}, ctx.Err()
	}
	if code, body, _ := d.ask(http.MethodPost, PathExpire, expireAlice, nil); code != 504 || problem(t, body) != ProblemTimeout {
		t.Errorf("%d %s", code, body)
	}
}

// A caller that goes away leaves nothing half done.
func TestExpireGoesOnWithoutItsCaller(t *testing.T) {
	d := newDesk(t, Config{}, nil)
	begun, gone, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	d.expire = func(ctx context.Context, _ string) (Expired, error) {
		close(begun)
		<-gone
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		done <- ctx.Err()
		return Expired{}, nil
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-begun
		leave()
	}()
	if _, _, _, err := d.try(ctx, http.MethodPost, PathExpire, expireAlice, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	close(gone)
	if err := <-done; err != nil {
		t.Errorf("it was cut short: %v", err)
	}
}

// More at a time than there are slots are told to come again; a stop ends and awaits
// those under way.
func TestExpiriesAreBoundedAndEndWithTheStop(t *testing.T) {
	d := newDesk(t, Config{}, nil)
	begun := make(chan struct{}, maxExpiries)
	var under atomic.Int64
	d.expire = func(ctx context.Context, _ string) (Expired, error) {
		under.Add(1)
		defer under.Add(-1)
		begun <- struct{}{}
		<-ctx.Done()
		return Expired{}, ctx.Err()
	}
	answered := make(chan struct{}, maxExpiries)
	for range maxExpiries {
		go func() {
			_, _, _, _ = d.try(context.Background(), http.MethodPost, PathExpire, expireAlice, nil)
			answered <- struct{}{}
		}()
		<-begun
	}
	code, body, header := d.ask(http.MethodPost, PathExpire, expireAlice, nil)
	if code != 503 || problem(t, body) != ProblemBusy || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", code, body)
	}
	if code, _, _ := d.ask(http.MethodGet, PathTokens, "", nil); code != 200 { // they keep nobody from looking
		t.Errorf("%d", code)
	}
	d.stop()
	if err := <-d.done; err != nil {
		t.Error(err)
	}
	if n := under.Load(); n != 0 {
		t.Errorf("%d are under way after the stop", n)
	}
	for range maxExpiries {
		<-answered
	}
	d.done <- nil
}

// Connections beyond the bound are closed, and those of others go on.
func TestConnectionsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounded := newSlotted(l, 2)
	taken := make(chan net.Conn, 10)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := bounded.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	dial()
	first, second := <-taken, <-taken
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("the third was not closed")
	}
	for range 2 { // closing twice gives one slot back
		_ = first.Close()
	}
	dial()
	third := <-taken
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("there is room for one too many")
	}
	_ = second.Close()
	_ = third.Close()
	_ = l.Close()
	<-over
}

func FuzzExpiry(f *testing.F) {
	for _, seed := range []string{expireAlice, `{"owner":"\u0000"}`, `{"owner":1}`, "[]", `{"owner":"a"}{}`, `{"owner":"\ud800"}`, `{"Owner":"x"}`, ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		owner, problem := parseExpiry(bytes.NewReader(body))
		if problem != nil {
			if owner != "" || problem.Code != ProblemBadRequest {
				t.Errorf("%q with %+v", owner, problem)
			}
			return
		}
		if owner == "" || len(owner) > maxOwner || strings.HasPrefix(owner, "User:") {
			t.Errorf("%q was accepted", owner)
		}
		again, err := json.Marshal(Expiry{Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		if back, problem := parseExpiry(bytes.NewReader(again)); problem != nil || back != owner {
			t.Errorf("%q became %q, %v", owner, back, problem)
		}
	})
}
