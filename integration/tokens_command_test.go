//go:build integration

package integration

// This file proves that `doorkeeper tokens` shows what a gateway holds, as the brokers
// see it, and that expiring one owner ends that owner's sessions and nobody else's: its
// Java and franz-go clients come back with a new token and lose nothing, no broker knows
// the old one any more, others' tokens of that owner are left alone, and no secret is
// shown. And that an admin address on a network shows and does none of that but for
// operators' certificates.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"doorkeeper/integration/harness"
)

// toldOwner is an owner as `tokens list --json` shows it.
type toldOwner struct {
	Owner string
	Own   bool
	State string
	Token *struct {
		ID    string
		Age   float64 `json:"age_seconds"`
		Left  float64 `json:"left_seconds"`
		Ready []int32 `json:"brokers_ready"`
	}
	Tokens   int
	Sessions int
}

// tokensTool runs the command and keeps all that it has printed.
type tokensTool struct {
	t        *testing.T
	said     strings.Builder
	common   []string
	instance string // as the last list named it
}

// run returns the exit code, which is 0 or 1, and the outputs.
func (tool *tokensTool) run(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	tool.t.Helper()
	binary, err := site.Binary()
	must(tool.t, err)
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, binary, append(append([]string{"tokens"}, args...), tool.common...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var ended *exec.ExitError
	if err := cmd.Run(); errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		must(tool.t, err)
	}
	tool.said.WriteString(out.String() + errs.String())
	return code, out.String(), errs.String()
}

// list is the document of the gateway, by owner.
func (tool *tokensTool) list(ctx context.Context) map[string]toldOwner {
	tool.t.Helper()
	code, stdout, stderr := tool.run(ctx, "list", "--json")
	var doc struct {
		Instance string
		Owners   []toldOwner
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 {
		tool.t.Fatalf("code %d, %v: %s%s", code, err, stdout, stderr)
	}
	tool.instance = doc.Instance
	owners := map[string]toldOwner{}
	for _, o := range doc.Owners {
		owners[o.Owner] = o
	}
	return owners
}

// S9 (token part), S21: the gateway has no right but CreateTokens. S22: what others made
// for the owner is not touched.
func TestTokensAreShownAndExpired(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 4*time.Minute)
	app := name(t, "app")
	for _, user := range []string{"ann", "ben"} {
		must(t, c.Admin.Grant(ctx, harness.AppGrants(user, app)...))
	}
	const rate, rounds = 200, 3
	byJava := series{app + "-java", "j", 2_000}.make(ctx, t, c)
	byAnn, byBen := series{app + "-ann", "a", 0}.make(ctx, t, c), series{app + "-ben", "b", 0}.make(ctx, t, c)
	g := gateway(t, c, harness.GatewayConfig{})
	tool := &tokensTool{t: t, common: []string{"--config", g.Config}}
	tool.list(ctx)
	foreign := plantTokens(ctx, t, c, "ann", "doorkeeper-"+tool.instance)

	java, err := site.StartJava(harness.JavaRun{Certificate: site.Client("ann"), Steps: []harness.JavaStep{byJava.step("produce", g.Bootstrap, "rate", fmt.Sprint(rate))}})
	must(t, err)
	var dials harness.Dials
	var all errgroup.Group
	over := make(chan struct{})
	for user, s := range map[string]*series{"ann": &byAnn, "ben": &byBen} {
		client := franz(t, &dials, site.Client(user), g.Bootstrap)
		all.Go(func() error {
			wrote, err := s.produceUntil(ctx, over, client, rate)
			s.judge(t, user+" wrote", wrote, false)
			return err
		})
	}
	for _, topic := range []string{byJava.topic, byAnn.topic, byBen.topic} {
		for slices.Min(ends(ctx, t, c, topic)) == 0 {
			time.Sleep(200 * time.Millisecond)
		}
	}

	owners := settledList(ctx, tool, g)
	t.Logf("%+v", owners)
	if own := owners[harness.GatewayPrincipal]; !own.Own || own.Token == nil || own.Sessions != 0 || len(owners) != 3 {
		t.Errorf("%+v", owners)
	}
	for _, user := range []string{"ann", "ben"} {
		shownAsItIs(ctx, t, c, user, owners[user])
	}
	secrets := tokenSecrets(t, c)
	ben := owners["ben"]
	ended := 0
	for round := range rounds {
		old := tool.list(ctx)["ann"]
		code, stdout, stderr := tool.run(ctx, "expire", "ann")
		said, found := strings.CutPrefix(stdout, "ann: its token is expired, and ")
		n, err := strconv.Atoi(strings.Split(said, " ")[0])
		if code != 0 || stderr != "" || !found || err != nil || n == 0 {
			t.Fatalf("round %d: code %d, %s%s", round, code, stdout, stderr)
		}
		t.Logf("round %d: %d sessions were listed, %d ended", round, old.Sessions, n)
		ended += n
		// Its client goes on, with another token.
		for before := stored(ctx, t, c, byAnn.topic); stored(ctx, t, c, byAnn.topic) <= before; {
			time.Sleep(100 * time.Millisecond)
		}
		now := tool.list(ctx)["ann"]
		if now.Token == nil || now.Token.ID == old.Token.ID || now.Sessions == 0 || now.Tokens != 1 {
			t.Errorf("round %d: %+v after %+v", round, now, old)
		}
		secrets = append(secrets, tokenSecrets(t, c)...)
	}

	m := metricsNow(ctx, t, g)
	if n := m.Sum("doorkeeper_session_ends_total", `reason="expired_by_operator"`); int(n) != ended {
		t.Errorf("%v ends were counted, %d told", n, ended)
	}
	for _, line := range g.Lines() {
		if line["msg"] != "session ended" {
			continue
		}
		if line["reason"] == "expired_by_operator" {
			ended--
		}
		if line["owner"] != "ann" {
			t.Errorf("it ended all the same: %v", line)
		}
	}
	if ended != 0 {
		t.Errorf("%d ends are missing in the log", ended)
	}
	if now := tool.list(ctx)["ben"]; now.Token == nil || ben.Token == nil || now.Token.ID != ben.Token.ID {
		t.Errorf("ben: %+v, was %+v", now, ben)
	}
	if code, _, stderr := tool.run(ctx, "expire", "nobody"); code != 1 || !strings.Contains(stderr, "neither a token nor a session") {
		t.Errorf("code %d, %s", code, stderr)
	}
	code, stdout, _ := tool.run(ctx, "list")
	if code != 0 || !strings.HasPrefix(stdout, "OWNER ") || !strings.Contains(stdout, "(the gateway itself)") {
		t.Errorf("code %d, %s", code, stdout)
	}

	results, err := java.Results(ctx)
	must(t, err)
	byJava.judgeJava(t, "java wrote", results[0])
	close(over)
	must(t, all.Wait())
	for _, s := range []series{byJava, byAnn, byBen} {
		if n := stored(ctx, t, c, s.topic); n != s.records {
			t.Errorf("%s: %d records are stored, not %d", s.topic, n, s.records)
		}
	}
	for _, n := range c.Nodes {
		if ids := idsAt(ctx, t, c, n.ID, "ann", 1+len(foreign)); !slices.Contains(ids, tool.list(ctx)["ann"].Token.ID) || !contains(ids, foreign) {
			t.Errorf("node %d knows %v of ann; planted were %v", n.ID, ids, foreign)
		}
	}
	noFaults(ctx, t, g)
	if len(secrets) < 2*rounds {
		t.Errorf("only %d secrets are known", len(secrets))
	}
	for _, s := range secrets {
		for encoding, text := range s.encodings() {
			for where, all := range map[string]string{"the command's output": tool.said.String(), "the gateway's": g.Output()} {
				if strings.Contains(all, text) {
					t.Errorf("%s is in %s, as %s", s.name, where, encoding)
				}
			}
		}
	}
}

// settledList waits until the sessions that are listed are those that are open.
func settledList(ctx context.Context, tool *tokensTool, g *harness.Gateway) map[string]toldOwner {
	tool.t.Helper()
	for {
		owners, open, listed := tool.list(ctx), metricsNow(ctx, tool.t, g).Sum("doorkeeper_sessions"), 0
		for _, o := range owners {
			listed += o.Sessions
		}
		if listed == int(open) {
			return owners
		}
		if ctx.Err() != nil {
			tool.t.Fatalf("%d sessions are listed, %v are open", listed, open)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// shownAsItIs compares what is shown of an owner with what the brokers say.
func shownAsItIs(ctx context.Context, t *testing.T, c *harness.Cluster, user string, o toldOwner) {
	t.Helper()
	const day = 24 * 3600
	if o.Own || o.State != "live" || o.Tokens != 1 || o.Token == nil || o.Sessions < 2 || o.Token.Age < 0 || o.Token.Left < day-600 || o.Token.Age+o.Token.Left > day+1 || len(o.Token.Ready) == 0 {
		t.Errorf("%s is shown as %+v %+v", user, o, o.Token)
		return
	}
	for _, node := range o.Token.Ready {
		tokens, err := c.Admin.Tokens(ctx, node, user)
		must(t, err)
		if !slices.ContainsFunc(tokens, func(d kmsg.DescribeDelegationTokenResponseTokenDetail) bool {
			left := float64(d.ExpiryTimestamp-time.Now().UnixMilli()) / 1000
			return d.TokenID == o.Token.ID && left > o.Token.Left-60 && left < o.Token.Left+60
		}) {
			t.Errorf("%s is shown with %+v, and node %d has %+v", user, o.Token, node, tokens)
		}
	}
}

// plantTokens has an administrator make tokens of that owner which are none of the
// gateway's: one with nothing to do with it, one that it may expire, one with its mark.
func plantTokens(ctx context.Context, t *testing.T, c *harness.Cluster, owner, marker string) []string {
	t.Helper()
	var ids []string
	for _, renewers := range [][]string{{"admin"}, {"admin", harness.GatewayPrincipal}, {"admin", harness.GatewayPrincipal, marker}} {
		want := kadm.CreateDelegationToken{Owner: &kadm.Principal{Type: "User", Name: owner}, MaxLifetime: 10 * time.Minute}
		for _, r := range renewers {
			want.Renewers = append(want.Renewers, kadm.Principal{Type: "User", Name: r})
		}
		made, err := c.Admin.CreateDelegationToken(ctx, want)
		must(t, err)
		ids = append(ids, made.TokenID)
		t.Cleanup(func() {
			ctx, cancel := afterwards()
			defer cancel()
			_, err := c.Admin.ExpireDelegationToken(ctx, made.HMAC, -time.Millisecond)
			must(t, err)
		})
	}
	return ids
}

// idsAt are the owner's tokens that a node knows, once they are so many: what a node
// hears of, it hears a moment later. ctx ends the wait, with what there is.
func idsAt(ctx context.Context, t *testing.T, c *harness.Cluster, node int32, owner string, want int) []string {
	t.Helper()
	for {
		tokens, err := c.Admin.Tokens(ctx, node, owner)
		must(t, err)
		var ids []string
		for _, d := range tokens {
			ids = append(ids, d.TokenID)
		}
		if len(ids) == want || ctx.Err() != nil {
			return ids
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// produceUntil writes the series until told to stop, which says how long it is, and
// returns what was acknowledged.
func (s *series) produceUntil(ctx context.Context, over <-chan struct{}, client *kgo.Client, rate int) (harness.Tally, error) {
	var (
		mu     sync.Mutex
		tally  harness.Tally
		failed error
	)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for writing := true; writing; {
		select {
		case <-tick.C:
			client.Produce(ctx, s.record(s.records), func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					tally.Add(s.prefix, recordSize, r.Key, r.Value)
				} else if failed == nil {
					failed = fmt.Errorf("produce %s: %w", r.Key, err)
				}
			})
			s.records++
		case <-over:
			writing = false
		case <-ctx.Done():
			writing = false
		}
	}
	err := client.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	return tally, errors.Join(failed, err)
}

// S14: an admin address that others can reach.
func TestTokensAreNotForTheNetwork(t *testing.T) {
	c := cluster(t)
	operator := site.Client("operator")
	for _, row := range []struct {
		about   string
		secured bool
	}{{"without TLS", false}, {"with operators", true}} {
		t.Run(row.about, func(t *testing.T) {
			ctx := within(t, 2*time.Minute)
			address := ""
			g := startGateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
				listen := section(d, "listen")
				host, port, err := net.SplitHostPort(listen["address"].(string))
				must(t, err)
				p, err := strconv.Atoi(port)
				must(t, err)
				address = net.JoinHostPort(host, strconv.Itoa(p+5))
				d.Set("admin.address", address)
				if row.secured {
					own := listen["tls"].(map[string]any)
					d.Set("admin.tls", map[string]any{"certificate": own["certificate"], "key": own["key"], "client_ca": own["client_ca"]})
					d.Set("admin.allow", []string{"operator"})
				}
			}})
			g.Admin = address
			must(t, g.AwaitOutput(ctx, `"msg":"serving"`))
			asks := func(code int, says string, args ...string) {
				t.Helper()
				tool := &tokensTool{t: t, common: append([]string{"--config", g.Config}, args...)}
				for _, command := range [][]string{{"list"}, {"expire", "ann"}} {
					got, stdout, stderr := tool.run(ctx, command...)
					if command[0] == "expire" && code == 0 {
						code, says = 1, "neither a token nor a session"
					}
					if got != code || !strings.Contains(stdout+stderr, says) {
						t.Errorf("%v %v: code %d, %s%s", command, args, got, stdout, stderr)
					}
				}
			}
			page := func(transport *http.Transport, url string) {
				t.Helper()
				transport.DisableKeepAlives = true
				resp, err := (&http.Client{Transport: transport}).Get(url)
				must(t, err)
				must(t, resp.Body.Close())
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %d", url, resp.StatusCode)
				}
			}
			if !row.secured {
				asks(1, "tokens are not shown here")
				page(&http.Transport{}, "http://"+address+"/livez")
				endsWell(t, g)
				return
			}
			pair := func(c *harness.Certificate) []string {
				return []string{"--ca", operator.CAFile(), "--certificate", c.Files.Cert, "--key", c.Files.Key}
			}
			asks(0, "SESSIONS", pair(operator)...)
			asks(1, `"ann" is not in admin.allow`, pair(site.Client("ann"))...)
			asks(1, "admin.tls.client_ca must hold", pair(site.Direct("operator"))...)
			asks(1, "show a certificate", "--ca", operator.CAFile())
			tls := operator.ClientTLS()
			tls.Certificates, tls.GetClientCertificate = nil, nil
			page(&http.Transport{TLSClientConfig: tls}, "https://"+address+"/livez")
			page(&http.Transport{TLSClientConfig: tls.Clone()}, "https://"+address+"/metrics")
			endsWell(t, g)
		})
	}
}
