// Command noskip reads the output of `go test -json`, shows what matters of it, and
// fails if a test failed, was skipped, or if none ran: a test that was skipped
// has proved nothing. Of tests that took twenty seconds and more it tells how long: they
// are where a run's time goes.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// said finds what a test reported, among the logs of what it ran.
var said = regexp.MustCompile(`(?m)^\s*\S+_test\.go:\d+: .*$`)

// slow is what is worth telling of a test, in seconds.
const slow = 20

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
	// ImportPath stands for Package in the events of a build.
	ImportPath string
}

func main() {
	if err := filter(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "noskip:", err)
		os.Exit(1)
	}
}

// filter shows a line per package and the whole output of tests that failed.
func filter(in io.Reader, out io.Writer) error {
	type id struct{ pkg, test string }
	var (
		output                  = make(map[id]*strings.Builder)
		passed, failed, skipped int
		skips, failures         []string
		broken                  bool
	)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			if line != "" {
				fmt.Fprint(out, line) // go's own words, such as those of a module that is missing
				broken = broken || strings.TrimSpace(line) != ""
			}
		} else {
			at := id{e.Package, e.Test}
			switch e.Action {
			case "output":
				if output[at] == nil {
					output[at] = new(strings.Builder)
				}
				output[at].WriteString(e.Output)
			case "build-output":
				fmt.Fprint(out, e.Output)
			case "build-fail":
				broken = true
			case "pass", "fail", "skip":
				text := ""
				if b := output[at]; b != nil {
					text = b.String()
				}
				delete(output, at)
				switch {
				case e.Test == "" && e.Action == "skip":
					fmt.Fprintf(out, "-     %s (no tests)\n", e.Package)
				case e.Test == "" && e.Action == "pass":
					fmt.Fprintf(out, "ok    %s %.1fs\n", e.Package, e.Elapsed)
				case e.Test == "":
					broken = true
					fmt.Fprintf(out, "%sFAIL  %s %.1fs\n", text, e.Package, e.Elapsed)
				case e.Action == "pass":
					passed++
					if e.Elapsed >= slow {
						fmt.Fprintf(out, "slow  %s %s %.0fs\n", e.Package, e.Test, e.Elapsed)
					}
				case e.Action == "fail":
					failed++
					fmt.Fprintf(out, "--- %s %s\n%s", e.Package, e.Test, text)
					failures = append(failures, fmt.Sprintf("%s %s\n%s", e.Package, e.Test, reports(text)))
				default:
					skipped++
					skips = append(skips, fmt.Sprintf("%s %s\n%s", e.Package, e.Test, text))
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	for at, b := range output {
		fmt.Fprintf(out, "--- %s %s did not end\n%s", at.pkg, at.test, b)
		broken = true
	}
	for _, s := range skips {
		fmt.Fprintf(out, "--- skipped: %s", s)
	}
	// Once more, for whoever sees the end of a long log only.
	for _, f := range failures {
		fmt.Fprintf(out, "--- failed: %s", f)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	switch {
	case failed > 0 || broken:
		return fmt.Errorf("tests failed")
	case skipped > 0:
		return fmt.Errorf("%d tests were skipped; install what they need, or take them out", skipped)
	case passed == 0:
		return fmt.Errorf("no test ran")
	}
	return nil
}

// reports are the first lines that the test itself wrote, in short.
func reports(text string) string {
	const lines, width = 6, 400
	var b strings.Builder
	for _, line := range said.FindAllString(text, lines) {
		fmt.Fprintf(&b, "%.*s\n", width, line)
	}
	return b.String()
}
