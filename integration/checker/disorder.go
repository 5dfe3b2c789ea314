package checker

import (
	"regexp"
	"strings"
)

// refusedProduce is what Java's producer logs of an answer that it gets over.
var refusedProduce = regexp.MustCompile(`clientId=([^],]+).*on topic-partition (\S+), retrying.*Error: ([A-Z_]+)`)

// Disorder returns the lines of a client's log that tell of a broken sequence, whether the
// client got over it or not. There is one exception, Kafka's own: a broker refuses the
// first produce of a transaction while the one before it still ends (KIP-890), and with it
// up to four more of that partition that are in flight behind it.
func Disorder(log string) []string {
	var out []string
	pardoned := map[string]int{}
	for line := range strings.Lines(log) {
		told := strings.Contains(line, "OutOfOrderSequence") || strings.Contains(line, "OUT_OF_ORDER_SEQUENCE")
		if m := refusedProduce.FindStringSubmatch(line); m != nil {
			at := m[1] + " " + m[2]
			if m[3] == "CONCURRENT_TRANSACTIONS" {
				pardoned[at] += 4
			} else if told && pardoned[at] > 0 {
				pardoned[at]--
				told = false
			}
		}
		if told {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}
