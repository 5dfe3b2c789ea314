package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorkeeper/internal/certtest"
	"doorkeeper/internal/devkafka"
)

// beforeKafka writes a configuration for a gateway in front of embedded brokers.
func beforeKafka(t *testing.T, cfg devkafka.Config, change func(string) string) *gatewayUnderTest {
	t.Helper()
	brokers := certtest.NewCA("brokers")
	cfg.Certificate = brokers.Issue(certtest.Server("127.0.0.1")).TLS
	cfg.ClientCA = certtest.Pool(brokers)
	if cfg.SuperUsers == nil {
		cfg.SuperUsers = []string{"somebody"} // not the gateway
	}
	cluster, err := devkafka.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Close() })
	list := func(addresses []string) string { return `"` + strings.Join(addresses, `", "`) + `"` }
	g := writeFiles(t, func(text string) string {
		text = withHost(text)
		text = strings.Replace(text, `"127.0.0.1:1"`, list(cluster.TokenAddresses()), 1)
		text = strings.Replace(text, `"127.0.0.1:2"`, list(cluster.ControlAddresses()), 1)
		text = strings.Replace(text, "base_port: 60000", fmt.Sprintf("base_port: %d, nodes: 1-%d", 60000, len(cluster.Nodes())), 1)
		if change != nil {
			text = change(text)
		}
		return text
	})
	brokers.Write(g.dir, "broker-ca")
	brokers.Issue(certtest.Leaf{CommonName: "gateway"}).Write(g.dir, "gateway")
	return g
}

func TestCheckOfAGoodSetUp(t *testing.T) {
	logins := make(chan devkafka.Login, 100)
	g := beforeKafka(t, devkafka.Config{SuperUsers: []string{"gateway"}, Logins: func(l devkafka.Login) { logins <- l }}, nil)
	c := runCheck(t, g, "--owner", "alice")
	for _, r := range c.Results {
		if r.Status != checkOK && !strings.Contains(r.Finding, "more than it needs") {
			t.Errorf("%+v", r)
		}
	}
	if c.code != exitOK || !c.OK {
		t.Errorf("code %d", c.code)
	}
	c.wants(t, stepRights, "the gateway's own token", checkOK, "the gateway is User:gateway", "")
	c.wants(t, stepCleaning, "", checkOK, "2 tokens were made and expired again", "")
	close(logins)
	first, again := map[int32]int{}, map[int32]int{}
	for l := range logins {
		if l.Principal != "alice" {
			t.Errorf("a login of %s", l.Principal)
		}
		if l.Reauthentication {
			again[l.Node]++
		} else {
			first[l.Node]++
		}
	}
	for node := int32(1); node <= 3; node++ {
		if first[node] != 1 || again[node] != 1 {
			t.Errorf("node %d: %d logins and %d re-authentications", node, first[node], again[node])
		}
	}
}

// Without an owner to try, that is said, and the rest is proved with the gateway's own
// token.
func TestCheckWithoutASampleOwner(t *testing.T) {
	c := runCheck(t, beforeKafka(t, devkafka.Config{Brokers: 1}, nil))
	c.wants(t, stepRights, "a token for a client", checkWarning, "not proved", "--owner NAME")
	c.wants(t, stepToken, "node 1", checkOK, "the token of User:gateway", "")
	c.wants(t, stepCleaning, "", checkOK, "1 token was made", "")
	if c.code != exitOK {
		t.Errorf("code %d", c.code)
	}
}

func TestCheckOfTokensThatKafkaRefusesOrCuts(t *testing.T) {
	able := []string{"gateway"}
	for _, tc := range []struct {
		name   string
		kafka  devkafka.Config
		change string
		status checkStatus
		step   string
		target string
		says   string
		cure   string
	}{
		{"no right", devkafka.Config{}, "", checkFailed, stepRights, "User:alice", "error 65", "--operation CreateTokens --user-principal 'User:alice'"},
		{"no secret key", devkafka.Config{NoSecretKey: true}, "", checkFailed, stepRights, "own token", "error 61", "delegation.token.secret.key on every broker"},
		{"no secret key on a broker", devkafka.Config{NoSecretKey: true}, "", checkFailed, stepKey, "node 1", "error 61", "of this node"},
		{"cut by the expiry", devkafka.Config{SuperUsers: able, Expiry: time.Hour}, "", checkWarning, stepLifetime, "tokens", "Kafka gives 1h0m0s: delegation.token.expiry.time.ms", "tokens.lifetime: 1h0m0s"},
		{"cut by the maximum", devkafka.Config{SuperUsers: able, MaxLifetime: time.Hour}, "", checkWarning, stepLifetime, "tokens", "delegation.token.max.lifetime.ms", "raise delegation.token.max.lifetime.ms"},
		{"too short", devkafka.Config{Expiry: 2 * time.Second}, "", checkFailed, stepLifetime, "tokens", "they live for 2s", "delegation.token.expiry.time.ms"},
		{"sessions of an hour", devkafka.Config{SuperUsers: able, MaxReauth: time.Hour}, "", checkWarning, stepLifetime, "node 1", "its sessions live for 1h0m0s", "connections.max.reauth.ms"},
		{"sessions of a second", devkafka.Config{MaxReauth: time.Second}, "", checkFailed, stepLifetime, "127.0.0.1", "less than 3s", "connections.max.reauth.ms"},
		{"protected", devkafka.Config{}, "identity: {protected: [alice]}", checkFailed, stepRights, "User:alice", "identity.protected", "--owner NAME"},
		{"the first that is allowed", devkafka.Config{}, "identity: {allow: [bob]}", checkFailed, stepRights, "User:bob", "error 65", "'User:bob'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.kafka.Brokers = 1
			g := beforeKafka(t, tc.kafka, func(text string) string { return text + tc.change + "\n" })
			args := []string{"--owner", "alice"}
			if strings.Contains(tc.change, "allow") {
				args = nil
			}
			c := runCheck(t, g, args...)
			c.wants(t, tc.step, tc.target, tc.status, tc.says, tc.cure)
			if (c.code == exitFailure) != (tc.status == checkFailed) {
				t.Errorf("code %d", c.code)
			}
		})
	}
}

// A creation whose answer was lost has made a token all the same; and the connections
// that made it may be gone by the time of cleaning up.
func TestCheckCleansUpWhatItLost(t *testing.T) {
	g := beforeKafka(t, devkafka.Config{SuperUsers: []string{"gateway"}}, nil)
	c := &checker{flags: checkFlags{Config: g.config(), Owner: "alice"}, mark: "doorkeeper-check-test", sheet: checkSheet{json: true}}
	defer c.close()
	for _, step := range []func(context.Context) []checkResult{c.checkConfiguration, c.checkFiles, c.checkControl, c.checkRights} {
		c.sheet.add(step(t.Context())...)
	}
	if len(c.made) != 2 {
		t.Fatalf("%d tokens were made: %+v", len(c.made), c.sheet.results)
	}
	c.made, c.lost = nil, true
	for _, h := range c.controls {
		_ = h.conn.Close()
	}
	c.clean(t.Context())
	last := c.sheet.results[len(c.sheet.results)-1]
	if last.Step != stepCleaning || last.Status != checkOK || !strings.HasPrefix(last.Finding, "2 tokens") {
		t.Errorf("%+v", last)
	}
	c.made, c.lost = nil, true
	c.clean(t.Context())
	if last := c.sheet.results[len(c.sheet.results)-1]; last.Status != checkOK || !strings.HasPrefix(last.Finding, "0 tokens") {
		t.Errorf("they are still there: %+v", last)
	}
}

// Where nothing can be reached any more, what stays is said.
func TestCheckThatCannotCleanUp(t *testing.T) {
	g := beforeKafka(t, devkafka.Config{Brokers: 1}, nil)
	c := &checker{flags: checkFlags{Config: g.config()}, mark: "doorkeeper-check-test", sheet: checkSheet{json: true}}
	defer c.close()
	for _, step := range []func(context.Context) []checkResult{c.checkConfiguration, c.checkFiles, c.checkControl, c.checkRights} {
		c.sheet.add(step(t.Context())...)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	c.clean(ended)
	last := c.sheet.results[len(c.sheet.results)-1]
	if last.Status != checkWarning || !strings.Contains(last.Finding, "1 of 1 token could not be expired") || !strings.Contains(last.Cure, "doorkeeper-check-test") {
		t.Errorf("%+v", last)
	}
}
