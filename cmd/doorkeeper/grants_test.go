package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runGrants(t *testing.T, owners string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "owners")
	if err := os.WriteFile(path, []byte(owners), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), environment{args: append([]string{"grants", "--owners", path}, args...), stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

func TestGrantsAreTheRightsOfTheOwnersAlone(t *testing.T) {
	code, stdout, stderr := runGrants(t, "# the shop\nalice\n\n  bob's  \r\napp-*\nCN=carol,O=x\n",
		"--principal", "gateway", "--bootstrap", "broker-1:9093", "--command-config", "my admin.properties")
	const begin = "kafka-acls.sh --bootstrap-server broker-1:9093 --command-config 'my admin.properties' --add --allow-principal 'User:gateway' --operation CreateTokens --user-principal "
	want := begin + "'User:alice'\n" +
		begin + `'User:bob'\''s'` + "\n" +
		begin + "'User:app-' --resource-pattern-type prefixed\n" +
		begin + "'User:CN=carol,O=x'\n"
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", code, stderr, stdout, want)
	}
	if _, stdout, _ := runGrants(t, "*", "--principal", "gateway"); !strings.HasSuffix(stdout, " --user-principal '*'\n") {
		t.Errorf("everybody: %s", stdout)
	}
}

func TestGrantsOfWhatIsNoOwner(t *testing.T) {
	for _, row := range []struct{ name, owners, principal, want string }{
		{"nobody", "# none\n\n", "gateway", "names nobody"},
		{"a whole principal", "User:alice\n", "gateway", "line 1: \"User:alice\": write the name alone, without User:"},
		{"two at once", "a*b\n\ndoorkeeper-x\n", "gateway", "line 3: \"doorkeeper-x\" is never a client's name"},
		{"a star in the middle", "a*b\n", "gateway", "* may stand at the end only"},
		{"the same twice", "alice\nbob\nalice\n", "gateway", "line 3: \"alice\" is there a second time, first on line 1"},
		{"hidden characters", "al\u202eice\n", "gateway", `"al\u202eice" has characters that nobody sees`},
		{"not UTF-8", "al\xffice\n", "gateway", "is not UTF-8"},
		{"a bad gateway", "alice\n", "User:gateway", "--principal: \"User:gateway\": write the name alone"},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, stdout, stderr := runGrants(t, row.owners, "--principal", row.principal)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, row.want) {
				t.Errorf("exit %d, %s%s", code, stdout, stderr)
			}
		})
	}
	var errs bytes.Buffer
	code := run(t.Context(), environment{args: []string{"grants", "--owners", "/nowhere", "--principal", "g"}, stdout: &errs, stderr: &errs})
	if code != exitUsage || !strings.Contains(errs.String(), "name a readable file") {
		t.Errorf("no file: exit %d, %s", code, errs.String())
	}
}
