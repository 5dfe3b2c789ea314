package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// checkStatus is how something that was looked at came out.
type checkStatus string

// The statuses, as they stand in the JSON document.
const (
	checkOK      checkStatus = "ok"
	checkWarning checkStatus = "warning" // it works, and should be looked at
	checkFailed  checkStatus = "failed"
	checkNotRun  checkStatus = "not_run"  // what it needs has failed; the finding says what
	checkNoMatch checkStatus = "no_match" // whoami: a rule that is not for this name
)

// checkResult is one line, and one entry of the JSON document. The names of its fields
// and of the steps stand: scripts read them.
type checkResult struct {
	Step    string      `json:"step"`
	Target  string      `json:"target"`
	Status  checkStatus `json:"status"`
	Finding string      `json:"finding"`
	Cure    string      `json:"cure"`
}

func checkPassed(step, target, format string, args ...any) checkResult {
	return checkResult{Step: step, Target: target, Status: checkOK, Finding: fmt.Sprintf(format, args...)}
}

// checkBad is a finding with what to change.
func checkBad(step, target string, status checkStatus, finding, cure string) checkResult {
	return checkResult{Step: step, Target: target, Status: status, Finding: finding, Cure: cure}
}

// checkWaits is for what cannot be looked at before another step is mended.
func checkWaits(step, target, before string) checkResult {
	return checkResult{Step: step, Target: target, Status: checkNotRun, Finding: "waits for " + before}
}

// checkSheet takes results in their order and shows each at once, or all in one
// document at the end. One goroutine uses it.
type checkSheet struct {
	out     terminal
	json    bool
	results []checkResult
}

func (s *checkSheet) add(results ...checkResult) {
	for _, r := range results {
		r.Target, r.Finding, r.Cure = oneLine(r.Target), oneLine(r.Finding), oneLine(r.Cure)
		s.results = append(s.results, r)
		if !s.json {
			s.show(r)
		}
	}
}

// oneLine makes one line of text that nobody's certificate, host name or answer can
// forge or colour.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") {
		if unicode.IsPrint(r) && r != '\uFFFD' {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func (s *checkSheet) show(r checkResult) {
	words := map[checkStatus]string{
		checkOK: s.out.good("OK      "), checkWarning: s.out.paint("33;1", "WARNING "), checkFailed: s.out.bad("FAILED  "),
		checkNotRun: s.out.faint("NOT RUN "), checkNoMatch: s.out.faint("NO MATCH"),
	}
	about := fmt.Sprintf("%-16s ", r.Step)
	if r.Target != "" {
		about += s.out.title(r.Target) + ": "
	}
	_, _ = fmt.Fprintf(s.out, "%s %s%s\n", words[r.Status], about, r.Finding)
	if r.Cure != "" {
		_, _ = fmt.Fprintf(s.out, "%s to change: %s\n", strings.Repeat(" ", 8+1+16), r.Cure)
	}
}

// count tells how many results have that status.
func (s *checkSheet) count(status checkStatus) int {
	n := 0
	for _, r := range s.results {
		if r.Status == status {
			n++
		}
	}
	return n
}

// good tells whether nothing failed and nothing was left out.
func (s *checkSheet) good() bool { return s.count(checkFailed)+s.count(checkNotRun) == 0 }

// has tells whether a result of that step and target has one of the statuses; an empty
// target stands for any.
func (s *checkSheet) has(step, target string, statuses ...checkStatus) bool {
	return slices.ContainsFunc(s.results, func(r checkResult) bool {
		return r.Step == step && (target == "" || r.Target == target) && slices.Contains(statuses, r.Status)
	})
}

// checkDocument is what --json prints.
type checkDocument struct {
	Version string        `json:"version"`
	Config  string        `json:"config"`
	OK      bool          `json:"ok"`
	Results []checkResult `json:"results"`
}

// encode writes v as one JSON document.
func (s *checkSheet) encode(v any) {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v)
}

func (s *checkSheet) sum(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%d ok, %d warnings, %d failed, %d not run\n",
		s.count(checkOK), s.count(checkWarning), s.count(checkFailed), s.count(checkNotRun))
}
