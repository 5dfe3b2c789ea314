package main

import (
	"strings"
	"testing"
)

func TestDescriptorsAreComparedWithSessions(t *testing.T) {
	rows := []struct {
		sessions, nodes int
		limit           uint64
		want            string // "" for no warning
	}{
		{9000, 3, 1 << 20, ""},
		{9000, 3, 18_203, ""},
		{9000, 3, 18_202, "limits.sessions is 9000, but the process may have 18202 files open, enough for 8999 sessions; raise the limit of open files (LimitNOFILE=, ulimit -n) to 18203 or lower limits.sessions"},
		{9000, 0, 1024, "enough for 412 sessions"},
		{9000, 3, 204, "too few for even one session"},
		{9000, 3, 0, "too few for even one session"},
		{1, 0, 202, ""},
	}
	for _, row := range rows {
		got := checkDescriptors(row.sessions, row.nodes, row.limit)
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%+v: got %q", row, got)
		}
	}
}
