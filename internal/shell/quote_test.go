package shell

import (
	"os/exec"
	"testing"
)

func TestAShellReadsTheTextItself(t *testing.T) {
	for _, text := range []string{"/tmp/plain-1.pem", "with blank", "it's", `a"b\c$d` + "`e`", "", "ü", "*?", "#x", "~"} {
		for _, word := range []string{Quote(text), Quoted(text)} {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+word).Output()
			if err != nil || string(out) != text {
				t.Errorf("%q as %s came out as %q (%v)", text, word, out, err)
			}
		}
	}
	if plain, quoted := Quote("/tmp/a.b"), Quoted("/tmp/a.b"); plain != "/tmp/a.b" || quoted != "'/tmp/a.b'" {
		t.Errorf("got %s and %s", plain, quoted)
	}
}
