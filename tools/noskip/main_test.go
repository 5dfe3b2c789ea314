package main

import (
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	const (
		pass = `{"Action":"output","Package":"p","Test":"A","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"A","Elapsed":1}
{"Action":"output","Package":"p","Output":"ok p 1s\n"}
{"Action":"pass","Package":"p","Elapsed":1}
`
		fail = `{"Action":"output","Package":"q","Test":"B","Output":"what went wrong\n"}
{"Action":"fail","Package":"q","Test":"B"}
{"Action":"fail","Package":"q","Elapsed":2}
`
		long = `{"Action":"output","Package":"q","Test":"E","Output":"    x_test.go:7: 3 records, not 4\n"}
{"Action":"output","Package":"q","Test":"E","Output":"    a long log\n"}
{"Action":"fail","Package":"q","Test":"E"}
`
		skip = `{"Action":"output","Package":"r","Test":"C","Output":"needs a JDK\n"}
{"Action":"skip","Package":"r","Test":"C"}
{"Action":"pass","Package":"r"}
`
		empty = `{"Action":"skip","Package":"none"}
`
		build = `{"ImportPath":"s","Action":"build-output","Output":"x.go:1: no\n"}
{"ImportPath":"s","Action":"build-fail"}
{"Action":"fail","Package":"s","FailedBuild":"s"}
`
		hung = `{"Action":"output","Package":"t","Test":"D","Output":"panic\n"}
`
	)
	rows := []struct {
		name, in, err string
		shows, hides  string
	}{
		{"pass", pass + empty, "", "ok    p 1.0s\n-     none (no tests)\n1 passed, 0 failed, 0 skipped\n", "noise"},
		{"fail", pass + fail, "tests failed", "what went wrong\n", "noise"},
		{"what failed stands at the end again", long + pass, "tests failed", "--- failed: q E\n    x_test.go:7: 3 records, not 4\n1 passed", ""},
		{"long", strings.ReplaceAll(pass, `"Elapsed":1`, `"Elapsed":31.4`), "", "slow  p A 31s\nok    p 31.4s\n", "noise"},
		{"skip", pass + skip, "skipped", "r C\nneeds a JDK\n", "noise"},
		{"build", pass + build, "tests failed", "x.go:1: no\n", "noise"},
		{"no end", pass + hung, "tests failed", "t D did not end\npanic\n", ""},
		{"nothing", empty, "no test ran", "0 passed", ""},
		{"not JSON", pass + "go: no such module\n", "tests failed", "go: no such module\n", ""},
		{"no newline at the end", strings.TrimSuffix(pass, "\n"), "", "1 passed", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var out strings.Builder
			err := filter(strings.NewReader(row.in), &out)
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got error %v, want %q", err, row.err)
			}
			if !strings.Contains(out.String(), row.shows) || row.hides != "" && strings.Contains(out.String(), row.hides) {
				t.Errorf("got\n%s", out.String())
			}
		})
	}
}
