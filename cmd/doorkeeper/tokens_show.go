package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"doorkeeper/admin"
)

// showListing prints the owners as a table, and what is wrong with some below it.
func showListing(out terminal, l *admin.Listing) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "OWNER\tSTATE\tAGE\tLEFT\tBROKERS READY\tSESSIONS")
	sessions := 0
	for _, o := range l.Owners {
		name := oneLine(o.Name)
		if o.Own {
			name = strings.TrimSpace(name + " (the gateway itself)")
		}
		age, left, ready := "-", "-", "-"
		if t := o.Token; t != nil {
			age, left, ready = seconds(t.Age), seconds(t.Left), nodeRanges(t.Ready)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\n", name, oneLine(o.State), age, left, ready, o.Sessions)
		sessions += o.Sessions
	}
	_ = table.Flush() // a standard output that is gone shows in the exit code of no command
	_, _ = fmt.Fprintf(out, "%s, %s at %s\n", countOf(len(l.Owners), "owner", "owners"), countOf(sessions, "session", "sessions"), oneLine(l.Instance))
	for _, o := range l.Owners {
		if o.Failure == "" {
			continue
		}
		_, _ = fmt.Fprintf(out, "%s: %s", out.bad(oneLine(o.Name)), oneLine(o.Failure))
		if o.RetryIn > 0 {
			_, _ = fmt.Fprintf(out, "; next attempt in %s", seconds(o.RetryIn))
		}
		_, _ = fmt.Fprintln(out)
	}
}

// showExpired says what came of an expiry.
func showExpired(out terminal, owner string, e *admin.Expired) {
	expired := "its token is expired"
	if !e.Token {
		expired = "there was no token to expire"
	}
	ended := "no session was there to end"
	if e.Sessions > 0 {
		ended = countOf(e.Sessions, "session was", "sessions were") + " ended"
	}
	_, _ = fmt.Fprintf(out, "%s: %s, and %s\n", out.title(oneLine(owner)), expired, ended)
	if e.Ending > 0 {
		_, _ = fmt.Fprintf(out, "%s not closed yet when the time was over; the log says when they are\n", countOf(e.Ending, "of them was", "of them were"))
	}
}

// seconds shows a number of seconds as a duration, to the second.
func seconds(s float64) string {
	const most = float64(math.MaxInt64 / int64(time.Second))
	if math.IsNaN(s) {
		return "-"
	}
	return (time.Duration(min(max(s, -most), most)) * time.Second).String()
}

// nodeRanges shows ids in order, as 1-3,7; - for none.
func nodeRanges(ids []int32) string {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, cmp.Compare[int32])
	ids = slices.Compact(ids)
	var parts []string
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && int64(ids[last+1]) == int64(ids[last])+1 {
			last++
		}
		part := strconv.Itoa(int(ids[i]))
		if last > i {
			part += "-" + strconv.Itoa(int(ids[last]))
		}
		parts = append(parts, part)
		i = last + 1
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ",")
}
