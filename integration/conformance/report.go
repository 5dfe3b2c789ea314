package conformance

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Report is what came of a run.
type Report struct {
	Rows map[int16]*Row
	// Differences are those that nothing explains: faults of the gateway.
	Differences []string
	// Faults are what the suite did not do as it should.
	Faults []string
	// Flips are the differences that were planted.
	Flips Flips

	// Leaks is what the leak oracle found in fields that may speak of brokers, by field and
	// reason; nil if there was none.
	Leaks map[string]int
	// Slow are the questions that took longest, the slowest first.
	Slow []Took

	world *World
}

// Took is how long a question took, on both sides and with all that it needed.
type Took struct {
	What string
	Time time.Duration
}

func (r *Report) took(what string, d time.Duration) {
	r.Slow = append(r.Slow, Took{what, d})
	slices.SortFunc(r.Slow, func(a, b Took) int { return cmp.Compare(b.Time, a.Time) })
	r.Slow = r.Slow[:min(len(r.Slow), 25)]
}

func newReport(w *World) *Report { return &Report{Rows: map[int16]*Row{}, world: w} }

func (r *Report) row(key int16) *Row {
	row := r.Rows[key]
	if row != nil {
		return row
	}
	row = &Row{Key: key, Success: map[int16]bool{}, Failure: map[int16]bool{}, Other: map[int16]bool{}, Needed: map[Path]Used{}}
	row.Served, row.Offered = known(key, r.world.Served), known(key, r.world.Offered)
	r.Rows[key] = row
	return row
}

// known are the versions in a range that kmsg knows too.
func known(key int16, of map[int16][2]int16) []int16 {
	request, in := kmsg.RequestForKey(key), of[key]
	if _, ok := of[key]; !ok || request == nil {
		return nil
	}
	var out []int16
	for v := in[0]; v <= min(in[1], request.MaxVersion()); v++ {
		out = append(out, v)
	}
	return out
}

func (r *Report) differ(key int16, what string) {
	r.Differences = append(r.Differences, what)
	r.row(key).Differences = append(r.row(key).Differences, what)
}

func (r *Report) fault(key int16, what string) {
	r.row(key)
	r.Faults = append(r.Faults, what)
}

// WriteMarkdown writes the report for people. It is the same for two runs that found the
// same.
func (r *Report) WriteMarkdown(w io.Writer, kafka string) error {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, kafka, len(r.Differences))
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "- %s\n", d)
	}
	r.table(&b)
	r.byNature(&b)
	r.withheld(&b)
	r.gaps(&b)
	r.leaks(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

const introduction = `# Conformance

Written by the conformance suite; do not edit. It sends the same request bytes to a broker of Kafka %s directly and through
the gateway, as the same principal, for every API key and version that the broker serves and the gateway's library (kmsg)
knows, and compares the answers byte for byte. Requests that change something ask for equal things that each side has of
its own.

Rewritten fields are compared too: each has to hold exactly the gateway's address of the node that the broker has named, and
error messages what the broker says, without the request that it prints into them together with addresses of its connections.
Fields that may differ are compared as far as they must be alike; they are listed below, and every other byte has to be
equal. To show that it would be noticed otherwise, every byte of the answers (the newest version of every question, up to
2,000 bytes) is changed in turn, by one bit: no change outside of these fields goes unnoticed.

Versions that the broker does not serve, up to one above what kmsg knows, and a key that nobody knows are sent as well.
Both sides close the connection over them, but answer ApiVersions with error 35 and the range that works.

No host name by which a broker is known to clients, no address of its listeners, and no port of theirs in an address field
is in any of the answers through the gateway, but in what is listed under "Brokers in answers".

Unexplained differences: %d

`

func (r *Report) table(b *strings.Builder) {
	b.WriteString(`
## By key

Versions are those that both the broker and kmsg know. Success and error: the versions for which an answer of that kind was
compared; "all" means all that the gateway serves.

| key | name | directly | through the gateway | success | error | rewritten | differs otherwise |
|---:|---|---|---|---|---|---|---|
`)
	for _, key := range slices.Sorted(maps.Keys(r.Rows)) {
		row := r.Rows[key]
		if kmsg.RequestForKey(key) == nil {
			continue
		}
		through := span(row.Offered)
		var notes []string
		switch w, ok := withheld(key, 0); {
		case ok && w.Answered:
			through = "answered here"
			notes = append(notes, "[withheld](#withheld)")
		case len(row.Withheld) > 0 || len(row.Refused) > 0:
			notes = append(notes, "[withheld](#withheld)")
		}
		if len(row.Served) == 0 && len(row.answered) == 0 {
			notes = append(notes, "both close the connection")
		}
		if key != int16(kmsg.ApiVersions) && len(row.answered) > 0 {
			notes = append(notes, "offered by neither, and both answer the same")
		}
		if key == int16(kmsg.ApiVersions) {
			notes = []string{"both answer other versions with error 35"}
		}
		for _, m := range row.Masks {
			if _, needed := row.Needed[m.Field]; needed || !m.Here {
				notes = append(notes, "`"+string(m.Field)+"`")
			}
		}
		var rewritten []string
		if len(row.Offered) > 0 {
			for _, p := range RewrittenFields(kmsg.Key(key)) {
				rewritten = append(rewritten, "`"+string(p)+"`")
			}
		}
		if key == int16(kmsg.ApiVersions) {
			rewritten = []string{"`ApiKeys`: withheld ones are missing"}
		}
		if len(addressed(kmsg.Key(key))) > 0 && len(rewritten) > 0 && !row.Seen {
			rewritten = append(rewritten, "empty in all answers")
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s | %s | %s | %s |\n", key, kmsg.NameForKey(key), span(row.Served), through,
			r.covered(row, row.Success), r.covered(row, row.Failure), strings.Join(rewritten, ", "), strings.Join(notes, "; "))
	}
}

func (r *Report) covered(row *Row, versions map[int16]bool) string {
	from, to := r.world.versions(kmsg.Key(row.Key))
	if to < from {
		return ""
	}
	have := slices.Sorted(maps.Keys(versions))
	if len(have) == int(to-from)+1 {
		return "all"
	}
	if len(have) == 0 {
		return "none"
	}
	return span(have)
}

// span is a list of versions for people.
func span(versions []int16) string {
	var parts []string
	for i := 0; i < len(versions); {
		j := i
		for j+1 < len(versions) && versions[j+1] == versions[j]+1 {
			j++
		}
		if part := fmt.Sprint(versions[i]); i == j {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s–%d", part, versions[j]))
		}
		i = j + 1
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

func (r *Report) byNature(b *strings.Builder) {
	b.WriteString("\n## Fields that may differ\n\nBetween any two answers, by their nature:\n\n| name | field | why |\n|---|---|---|\n")
	r.masks(b, false)
	b.WriteString("\nBecause the gateway answers by itself; the error and all other fields are the broker's:\n\n| name | field | the broker | the gateway |\n|---|---|---|---|\n")
	r.masks(b, true)
}

func (r *Report) masks(b *strings.Builder, here bool) {
	for _, key := range slices.Sorted(maps.Keys(r.Rows)) {
		for _, m := range r.Rows[key].Masks {
			if used, ok := r.Rows[key].Needed[m.Field]; here && m.Here && ok {
				fmt.Fprintf(b, "| %s | `%s` | `%s` | `%s` |\n", kmsg.NameForKey(key), m.Field, used.Direct, used.Gateway)
			} else if !here && !m.Here {
				fmt.Fprintf(b, "| %s | `%s` | %s |\n", kmsg.NameForKey(key), m.Field, m.Why)
			}
		}
	}
}

func (r *Report) withheld(b *strings.Builder) {
	b.WriteString("\n## Withheld\n\nWhat the broker serves and the gateway does not.\n\n| key | name | versions | sent all the same | why |\n|---:|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(r.Rows)) {
		row := r.Rows[key]
		if w, ok := withheld(key, 0); ok && w.Answered {
			fmt.Fprintf(b, "| %d | %s | %s | error %d, as the broker answers | %s |\n", key, kmsg.NameForKey(key), span(row.Served), tokensNotAllowed, w.Why)
		} else if len(row.Withheld) > 0 {
			fmt.Fprintf(b, "| %d | %s | %s | the connection is closed | %s |\n", key, kmsg.NameForKey(key), span(row.Withheld), row.WithheldAs.Why)
		}
		for _, what := range slices.Sorted(maps.Keys(row.Refused)) {
			name, why, _ := strings.Cut(what, " | ")
			fmt.Fprintf(b, "| %d | %s, %s | %s | the connection is closed | %s |\n", key, kmsg.NameForKey(key), name, span(row.Refused[what]), why)
		}
	}
}

func (r *Report) gaps(b *strings.Builder) {
	b.WriteString("\n## Not covered\n\nAnswers that cannot be had from these brokers.\n\n| key | name | versions | what | why |\n|---:|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(r.Rows)) {
		row := r.Rows[key]
		from, to := r.world.versions(kmsg.Key(key))
		for _, success := range []bool{true, false} {
			have, what := row.Success, "success"
			if !success {
				have, what = row.Failure, "error"
			}
			missing := map[string][]int16{}
			for v := from; v <= to; v++ {
				if g, ok := gap(key, v, success); ok && !have[v] {
					missing[g.Why] = append(missing[g.Why], v)
				}
			}
			for _, why := range slices.Sorted(maps.Keys(missing)) {
				fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", key, kmsg.NameForKey(key), span(missing[why]), what, why)
			}
		}
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if row := r.Rows[key]; row != nil && len(row.Served) == 0 {
			why := "the broker does not serve it, and closes the connection"
			if len(row.answered) > 0 {
				why = "the broker does not offer it, as it has no plugin for clients' metrics; sent all the same, it is answered alike on both sides"
			}
			fmt.Fprintf(b, "| %d | %s | all | all | %s |\n", key, kmsg.NameForKey(key), why)
		}
	}
}

func (r *Report) leaks(b *strings.Builder) {
	b.WriteString("\n## Brokers in answers\n\nWhere host names and addresses of brokers were in an answer through the gateway, and may be.\n\n")
	for _, what := range slices.Sorted(maps.Keys(r.Leaks)) {
		fmt.Fprintf(b, "- %s\n", what)
	}
}
