//go:build integration

package integration

// This file proves that nobody becomes somebody else by the name in a certificate of
// a trusted authority: protected names, whatever way a rule leads to them, names that
// no rule matches, that are empty, ambiguous, or hold characters that deceive, are
// refused by the alert bad_certificate, and no token is made for any of them.

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"

	"doorkeeper/integration/harness"
	"doorkeeper/internal/certtest"
)

// hostileName is a subject that must be refused, and the log's word for why.
type hostileName struct{ subject, kind string }

// hostileNames are refused where the common name is what counts and the rules are
// app-NAME → NAME and free-NAME as it is.
func hostileNames(instance string) []hostileName {
	cn := func(name string) string { return string(certtest.Name(certtest.RDN{certtest.CN(name)})) }
	var out []hostileName
	add := func(kind string, names ...string) {
		for _, n := range names {
			out = append(out, hostileName{cn(n), kind})
		}
	}
	for _, taken := range []string{"admin", "broker", harness.GatewayPrincipal, "ANONYMOUS", "*", "<default>", "User:x", "User:admin", "User:",
		"doorkeeper-", "doorkeeper-1", "doorkeeper-" + instance} {
		add("protected", "app-"+taken)
	}
	add("empty", "app-")
	add("no_rule", "admin", "App-x", "xapp-x", " app-x", "free", "*", "CN=app-x", "app")
	var deceptive []rune
	for r := range rune(0x20) {
		deceptive = append(deceptive, r, 0x80+r)
	}
	deceptive = append(deceptive, 0x7f, 0x61c, 0x200b, 0x200d, 0x200e, 0x200f, 0xfeff)
	for r := rune(0x202a); r <= 0x202e; r++ {
		deceptive = append(deceptive, r)
	}
	for r := rune(0x2066); r <= 0x2069; r++ {
		deceptive = append(deceptive, r)
	}
	for _, r := range deceptive {
		add("bad_characters", "free-a"+string(r)+"b", "app-admin"+string(r), "app-"+string(r)+"admin")
	}
	two := [2]certtest.Attribute{certtest.CN("free-a"), certtest.CN("app-admin")}
	return append(out,
		hostileName{string(certtest.Name(certtest.RDN{two[0]}, certtest.RDN{two[1]})), "ambiguous"},
		hostileName{string(certtest.Name(certtest.RDN{two[1]}, certtest.RDN{two[0]})), "ambiguous"},
		hostileName{string(certtest.Name(certtest.RDN{two[0], two[1]})), "ambiguous"},
		hostileName{string(certtest.Name(certtest.RDN{certtest.O("app-x")})), "missing"},
	)
}

// S7, and S8 where the whole way is concerned.
func TestHostileNamesAreRefused(t *testing.T) {
	c := cluster(t)
	instance := ""
	g := gateway(t, c, harness.GatewayConfig{Change: func(d harness.Document) {
		d.Set("identity.from", "common_name")
		d.Set("identity.rules", []string{"RULE:^app-(.*)$/$1/", "RULE:^(free-.*)$/$1/"})
		instance = fmt.Sprint(d["instance"])
	}})
	names := hostileNames(instance)
	if len(names) < 200 {
		t.Errorf("only %d names", len(names))
	}
	before := metricsOf(t, g)
	kinds := map[string]string{} // client's address → kind
	var mu sync.Mutex
	inTurn(len(names), func(i int) {
		issued := site.ClientCA().Issue(certtest.Leaf{Subject: []byte(names[i].subject), Usage: certtest.ClientOnly})
		config := g.TLS(site.Client("somebody"))
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &issued.TLS, nil }
		client, err := refusedHandshake(within(t, patience), g.Bootstrap, config)
		if err == nil || err.Error() != "remote error: tls: bad certificate" {
			t.Errorf("%q: %v", names[i].subject, err)
		}
		mu.Lock()
		defer mu.Unlock()
		kinds[client.String()] = names[i].kind
	})
	eventually(t, func() error {
		refused := 0
		for _, l := range g.Lines() {
			if kind, ours := kinds[fmt.Sprint(l["client"])]; ours {
				refused++
				if l["msg"] != "client refused" || l["reason"] != "certificate_refused" || l["kind"] != kind {
					return fmt.Errorf("wanted %s: %v", kind, l)
				}
			}
		}
		if refused != len(names) {
			return fmt.Errorf("%d lines for %d names", refused, len(names))
		}
		return nil
	})
	if strings.ContainsAny(g.Output(), "\x00\x1b\x7f\u0085\u202e\u2066") {
		t.Error("a name has written into the log as it is")
	}
	untouchedKafka(t, c, g, before, "admin", "broker", "ANONYMOUS", "*", "<default>", "User:x", "doorkeeper-1", "free-a", "free-ab")
	t.Logf("%d hostile names, all refused", len(names))
}
