//go:build integration

package integration

// This file proves that no secret leaves the gateway: at the highest log level, with
// logins that fail, clients that ask for tokens and garbage from outside, neither a
// token's secret nor a private key is in anything that the process writes or serves,
// in any encoding; and that a process that is aborted leaves no core file.

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"doorkeeper/integration/harness"
)

// S14, B51.
func TestNoSecretIsEverWritten(t *testing.T) {
	c := cluster(t)
	topic := topicFor(t, c, "keeper")
	// "crash" asks Go for a core file on a fatal signal.
	g := gateway(t, c, harness.GatewayConfig{Env: []string{"GOTRACEBACK=crash"}, Change: func(d harness.Document) {
		d.Set("log.level", "debug")
		d.Set("identity.protected", []string{"admin"})
	}})
	checkCoreLimit(t, g)
	works(t, g, "keeper", topic)

	secrets := keysOf(t, g)
	secrets = append(secrets, tokenSecrets(t, c)...)
	failingLogins(t, c, g, topic)
	secrets = append(secrets, tokenSecrets(t, c)...) // the new ones too
	if len(secrets) < 6 {
		t.Fatalf("only %d secrets are known", len(secrets))
	}

	var pages strings.Builder
	for _, path := range []string{"/", "/metrics", "/readyz", "/livez", "/debug/pprof/", "/debug/pprof/heap?debug=1", "/config"} {
		_, body, err := g.Get(within(t, patience), path)
		must(t, err)
		pages.WriteString(body)
	}
	must(t, g.Signal(syscall.SIGABRT))
	code, err := g.Wait(patience)
	must(t, err)
	if code == 0 {
		t.Error("an aborted process ended with 0")
	}
	out := g.Output()
	if !strings.Contains(out, "SIGABRT") || !strings.Contains(out, "goroutine ") {
		t.Errorf("the stacks of all goroutines are missing, so that nothing is proved of them:\n%s", last(out, 20))
	}
	hits := 0
	for _, s := range secrets {
		for encoding, text := range s.encodings() {
			for where, all := range map[string]string{"the output": out, "the pages": pages.String()} {
				if strings.Contains(all, text) {
					hits++
					t.Errorf("%s is in %s, as %s", s.name, where, encoding)
				}
			}
		}
	}
	t.Logf("%d secrets, searched in %d bytes of output and %d of pages: %d hits", len(secrets), len(out), pages.Len(), hits)
	checkNoCore(t, g)
}

// hidden is what must not be seen anywhere.
type hidden struct {
	name  string
	bytes []byte
}

// encodings are the forms in which it might show. Of long secrets any piece of 24
// bytes counts, the first two at least.
func (h hidden) encodings() map[string]string {
	quoted, _ := json.Marshal(string(h.bytes))
	out := map[string]string{
		"raw":             string(h.bytes),
		"hex":             hex.EncodeToString(h.bytes),
		"HEX":             strings.ToUpper(hex.EncodeToString(h.bytes)),
		"spaced hex":      fmt.Sprintf("% x", h.bytes),
		"base64":          base64.StdEncoding.EncodeToString(h.bytes),
		"raw base64":      base64.RawStdEncoding.EncodeToString(h.bytes),
		"URL base64":      base64.RawURLEncoding.EncodeToString(h.bytes),
		"escaped base64":  url.QueryEscape(base64.StdEncoding.EncodeToString(h.bytes)),
		"twice base64":    base64.RawStdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(h.bytes))),
		"JSON":            string(bytes.Trim(quoted, `"`)),
		"Go":              strings.Trim(fmt.Sprintf("%q", h.bytes), `"`),
		"list of numbers": strings.Trim(fmt.Sprint(h.bytes), "[]"),
		"URL":             url.QueryEscape(string(h.bytes)),
	}
	if len(h.bytes) > 48 {
		for i, piece := range [][]byte{h.bytes[:24], h.bytes[24:48]} {
			out[fmt.Sprintf("base64 of piece %d", i)] = base64.RawStdEncoding.EncodeToString(piece)
			out[fmt.Sprintf("hex of piece %d", i)] = hex.EncodeToString(piece)
		}
	}
	return out
}

// keysOf are the gateway's private keys, as lines of their files and as the bytes
// beneath.
func keysOf(t *testing.T, g *harness.Gateway) []hidden {
	t.Helper()
	config, err := os.ReadFile(g.Config)
	must(t, err)
	var out []hidden
	for l := range strings.Lines(string(config)) {
		_, path, found := strings.Cut(strings.TrimSpace(l), "key: ")
		if !found {
			continue
		}
		text, err := os.ReadFile(path)
		must(t, err)
		block, _ := pem.Decode(text)
		name := "the key in " + filepath.Base(path)
		// What precedes the secret number in PKCS#8 is the same for every key.
		out = append(out, hidden{name, block.Bytes}, hidden{name + " without its head", block.Bytes[36:]})
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if !strings.Contains(line, "-----") && len(line) > 20 {
				out = append(out, hidden{fmt.Sprintf("%s, line %d", name, i), []byte(line)})
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("the configuration names no keys")
	}
	return out
}

// tokenSecrets are those of all tokens that the cluster has.
func tokenSecrets(t *testing.T, c *harness.Cluster) []hidden {
	t.Helper()
	tokens, err := c.Admin.Tokens(within(t, patience), 1)
	must(t, err)
	var out []hidden
	for _, token := range tokens {
		out = append(out, hidden{"the secret of token " + token.TokenID, token.HMAC})
	}
	return out
}

// failingLogins takes the owner's token away behind the gateway's back, so that the
// brokers refuse its next logins, and sends what else might end in a message.
func failingLogins(t *testing.T, c *harness.Cluster, g *harness.Gateway, topic string) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	var tokens []kmsg.DescribeDelegationTokenResponseTokenDetail
	for len(tokens) == 0 { // node 1 may hear of it last
		var err error
		tokens, err = c.Admin.Tokens(ctx, 1, "keeper")
		must(t, err)
	}
	must(t, expire(ctx, c, tokens))
	works(t, g, "keeper", topic)
	// The brokers hear of the expiry in their own time: until a login was refused.
	for !strings.Contains(g.Output(), "a token is lost") {
		for _, n := range c.Nodes {
			r, err := harness.DialRaw(ctx, g.NodeAddress(n.ID), g.TLS(site.Client("keeper")))
			must(t, err)
			_, err = r.Request(metadata())
			must(t, err)
			_ = r.Close()
		}
	}

	r := rawReady(t, g, g.Bootstrap, "keeper")
	plain := kmsg.NewPtrSASLAuthenticateRequest()
	plain.Version, plain.SASLAuthBytes = 2, append([]byte("\x00keeper\x00"), base64.StdEncoding.EncodeToString(tokens[0].HMAC)...)
	describe := kmsg.NewPtrDescribeDelegationTokenRequest()
	describe.Version = 3
	renew := kmsg.NewPtrRenewDelegationTokenRequest()
	renew.Version, renew.HMAC = 2, tokens[0].HMAC
	for _, req := range []kmsg.Request{plain, describe, renew} {
		_, err := r.Request(req)
		must(t, err)
	}
	_, err := r.Write(framed(0, append(head(999, 0), tokens[0].HMAC...)))
	must(t, err)
	_ = ended(r, patience)
	oneEnd := rawClient(t, g, g.Bootstrap, "keeper")
	_, _ = oneEnd.Write(tokens[0].HMAC)
	_ = ended(oneEnd, patience)
}

// expire removes tokens at once (a period of -1 ms), as the gateway's principal, who
// may.
func expire(ctx context.Context, c *harness.Cluster, tokens []kmsg.DescribeDelegationTokenResponseTokenDetail) error {
	var dials harness.Dials
	kafka, err := dials.Client(site.Direct(harness.GatewayPrincipal), kgo.SeedBrokers(c.ControlAddresses()...))
	if err != nil {
		return err
	}
	defer kafka.Close()
	for _, token := range tokens {
		if _, err := kadm.NewClient(kafka).ExpireDelegationToken(ctx, token.HMAC, -time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func checkCoreLimit(t *testing.T, g *harness.Gateway) {
	t.Helper()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", g.PID()))
	must(t, err)
	for l := range strings.Lines(string(limits)) {
		if rest, found := strings.CutPrefix(l, "Max core file size"); found {
			if f := strings.Fields(rest); f[0] != "0" || f[1] != "0" {
				t.Errorf("core files may have %s bytes", rest)
			}
			return
		}
	}
	t.Errorf("no limit of core files in %s", limits)
}

// checkNoCore looks where the kernel would have put one.
func checkNoCore(t *testing.T, g *harness.Gateway) {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	must(t, err)
	if strings.HasPrefix(string(pattern), "|") {
		t.Logf("core files go to a program here: %s", pattern)
	}
	places := []string{filepath.Join(filepath.Dir(g.Config), "*")}
	if dir := filepath.Dir(strings.TrimSpace(string(pattern))); filepath.IsAbs(dir) {
		places = append(places, filepath.Join(dir, "*"))
	}
	for _, place := range places {
		files, err := filepath.Glob(place)
		must(t, err)
		for _, f := range files {
			if strings.Contains(filepath.Base(f), "core") {
				t.Errorf("a core file: %s", f)
			}
		}
	}
}
