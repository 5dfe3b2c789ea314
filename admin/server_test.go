package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

type page struct {
	code int
	body string
	kind string
}

// start serves c on a free port and returns how to get a page. The test ends when
// Run has returned.
func start(t *testing.T, c Config) (get func(path string) page, addr string) {
	t.Helper()
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	c.Address = "127.0.0.1:0"
	s := New(c)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	addr = s.Addr().String()
	return func(path string) page {
		t.Helper()
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return page{resp.StatusCode, string(body), resp.Header.Get("Content-Type")}
	}, addr
}

func TestLiveReadyAndTheirReasons(t *testing.T) {
	var notReady error
	get, _ := start(t, Config{Ready: func() error { return notReady }})

	if p := get("/livez"); p.code != 200 || p.body != "live\n" {
		t.Errorf("/livez: %+v", p)
	}
	if p := get("/readyz"); p.code != 200 || p.body != "ready\n" {
		t.Errorf("/readyz: %+v", p)
	}
	notReady = errors.Join(errors.New("no broker is up"), errors.New("draining"))
	if p := get("/readyz"); p.code != 503 || p.body != "not ready:\nno broker is up\ndraining\n" {
		t.Errorf("/readyz while not ready: %+v", p)
	}
	if p := get("/livez"); p.code != 200 {
		t.Errorf("/livez while not ready: %+v", p)
	}
}

func TestWithoutReadyItIsReady(t *testing.T) {
	get, _ := start(t, Config{})
	if p := get("/readyz"); p.code != 200 {
		t.Errorf("/readyz: %+v", p)
	}
}

func TestMetricsPage(t *testing.T) {
	m := NewMetrics()
	m.Panicked()
	get, _ := start(t, Config{Metrics: m})
	p := get("/metrics")
	for _, want := range []string{"doorkeeper_panics_total 1\n", "doorkeeper_sessions 0\n", "go_goroutines ", "process_start_time_seconds ", "go_build_info"} {
		if !strings.Contains(p.body, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

func TestStatusPageShowsWhatItWasHanded(t *testing.T) {
	get, _ := start(t, Config{
		Ready:  func() error { return errors.New("no broker is up") },
		Status: func() any { return map[string]string{"principal": "<script>gateway"} },
	})
	p := get("/")
	if p.code != 200 || !strings.Contains(p.body, "no broker is up") || !strings.Contains(p.body, `"principal"`) {
		t.Errorf("/: %+v", p)
	}
	if p.kind != "text/plain; charset=utf-8" || strings.Contains(p.body, "<script>") {
		t.Errorf("the page can be taken for HTML: %+v", p)
	}
}

func TestStatusThatCannotBeEncodedIsSaidSo(t *testing.T) {
	get, _ := start(t, Config{Status: func() any { return make(chan int) }})
	if p := get("/"); p.code != 200 || !strings.Contains(p.body, "could not be encoded") {
		t.Errorf("/: %+v", p)
	}
}

// TestNothingElseIsServed is S14's half of the admin listener: no profiles, no
// other pages, no methods that could change anything.
func TestNothingElseIsServed(t *testing.T) {
	get, addr := start(t, Config{})
	for _, path := range []string{"/debug/pprof/", "/debug/vars", "/metrics/x", "/index.html"} {
		if p := get(path); p.code != 404 {
			t.Errorf("%s: %+v", path, p)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post("http://"+addr+"/readyz", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /readyz: %d", resp.StatusCode)
	}
}

// TestStopDoesNotWaitForSilentPeers: a peer that is connected and says nothing
// does not keep Run from returning.
func TestStopDoesNotWaitForSilentPeers(t *testing.T) {
	s := New(Config{Address: "127.0.0.1:0", Metrics: NewMetrics()})
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestListenSaysWhichKeyIsMeant(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = New(Config{Address: l.Addr().String(), Metrics: NewMetrics()}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "admin.address") {
		t.Errorf("Run on a taken address: %v", err)
	}
}

func TestCloseFreesTheAddress(t *testing.T) {
	s := New(Config{Address: "127.0.0.1:0", Metrics: NewMetrics()})
	if err := s.Close(); err != nil {
		t.Errorf("Close before Listen: %v", err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	l, err := net.Listen("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
