package checker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Import reads what a writer in another process has noted, a line each:
//
//	s INDEX PARTITION          sent, where that is not the same as acknowledged
//	a INDEX PARTITION OFFSET   acknowledged
//	r INDEX                    given up
//	t FIRST LAST committed     a transaction; or aborted, or unknown
func (l *Ledger) Import(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if err := l.line(lines.Text()); err != nil {
			return fmt.Errorf("ledger of %s, line %d, %q: %w", l.Prefix, n, lines.Text(), err)
		}
	}
	return lines.Err()
}

func (l *Ledger) line(text string) error {
	const most = 100_000_000 // what eight digits can number
	var i, j int
	var partition int32
	var offset int64
	var word string
	kind, rest, _ := strings.Cut(text, " ")
	bounded := func(err error) error {
		if err == nil && (i >= most || j >= most || !l.numbers(i) || kind == "t" && !l.numbers(j)) {
			return errors.New("not a number of this writer's")
		}
		return err
	}
	switch kind {
	case "s":
		_, err := fmt.Sscanf(rest, "%d %d", &i, &partition)
		if err := bounded(err); err != nil {
			return err
		}
		l.Sent(i, partition)
	case "a":
		_, err := fmt.Sscanf(rest, "%d %d %d", &i, &partition, &offset)
		if err := bounded(err); err != nil {
			return err
		}
		l.Acked(i, partition, offset)
	case "r":
		_, err := fmt.Sscanf(rest, "%d", &i)
		if err := bounded(err); err != nil {
			return err
		}
		l.Refused(i)
	case "t":
		_, err := fmt.Sscanf(rest, "%d %d %s", &i, &j, &word)
		if err := bounded(err); err != nil {
			return err
		}
		outcome, known := map[string]Outcome{"committed": Committed, "aborted": Aborted, "unknown": Unknown}[word]
		if !known {
			return fmt.Errorf("no outcome %q", word)
		}
		l.Transaction(i, j, outcome)
	default:
		return fmt.Errorf("no kind %q", kind)
	}
	return nil
}
