//go:build integration

package integration

// This file proves that the commands which `doorkeeper grants` prints give exactly the
// rights that they are meant to give, pasted as they are.

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestGrantsGiveTheRightsOfTheOwnersAlone(t *testing.T) {
	c := cluster(t)
	ctx := within(t, 2*time.Minute)
	dir := t.TempDir()
	owners := filepath.Join(dir, "owners")
	must(t, os.WriteFile(owners, []byte("granted-alice\ngranted-app-*\n"), 0o600))
	settings, err := site.Direct("admin").JavaProperties()
	must(t, err)
	binary, err := site.Binary()
	must(t, err)
	script, err := exec.CommandContext(ctx, binary, "grants", "--owners", owners, "--principal", "gatekeeper",
		"--bootstrap", c.ControlAddresses()[0], "--command-config", settings).Output()
	must(t, err)
	ended, err := site.RunShell(ctx, dir, "set -e\n"+string(script), "")
	must(t, err)
	if ended.Code != 0 {
		t.Fatalf("exit %d\n%s%s", ended.Code, ended.Stdout, last(ended.Stderr, 20))
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(c.ControlAddresses()...), kgo.DialTLSConfig(site.Direct("gatekeeper").ClientTLS()))
	must(t, err)
	defer client.Close()
	for owner, granted := range map[string]bool{
		"granted-alice": true, "granted-app-1": true, "granted-alice2": false, "granted-ap": false, "other": false,
	} {
		err := tokenFor(ctx, kadm.NewClient(client), owner, granted)
		if granted && err != nil || !granted && !errors.Is(err, kerr.DelegationTokenAuthorizationFailed) {
			t.Errorf("a token for %s, who is meant to be granted (%v): %v", owner, granted, err)
		}
	}
}

// tokenFor asks for a token for the owner, and again for as long as the brokers may not
// have heard of the grant.
func tokenFor(ctx context.Context, client *kadm.Client, owner string, granted bool) error {
	for {
		_, err := client.CreateDelegationToken(ctx, kadm.CreateDelegationToken{
			Owner: &kadm.Principal{Type: "User", Name: owner}, MaxLifetime: time.Minute,
		})
		if err == nil || !granted || !errors.Is(err, kerr.DelegationTokenAuthorizationFailed) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
