package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Many connections of one age, whose sessions are renewed in the course of a run. A few
// ask as fast as they can: their throughput, second by second, shows what a mass renewal
// costs the others. All the others ask once in a pace, so that they renew: a request that
// meets a renewal is told by its answer, which has another login's number than the one
// before.

const (
	busyLegs = 8
	legPace  = time.Second
	openers  = 32 // connections that are opened at a time
	warmUp   = 3  // seconds that do not count
	// quietSeconds are needed for a steady figure.
	quietSeconds = 3
)

// sample is one request.
type sample struct {
	at      time.Time // when it was answered
	took    time.Duration
	renewed bool // there was a login since the answer before
	busy    bool
}

// runRenewals measures both kinds of renewal and prints a table.
func runRenewals(ctx context.Context, s settings, out io.Writer) error {
	runtime.LockOSThread() // see run
	defer runtime.UnlockOSThread()
	var b strings.Builder
	for _, kind := range s.kinds {
		began, samples, err := renewalsOf(ctx, s, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		text, err := renewalReport(began, samples)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		fmt.Fprintf(&b, "%s, %d connections, sessions of %v\n%s", kind, s.legs, s.life, text)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// renewalsOf has one load on a lab of its own. The samples begin when all are connected.
func renewalsOf(ctx context.Context, s settings, kind string) (began time.Time, all []sample, err error) {
	lab, err := newLab(ctx, s.binary, renewing{s.life, kind, s.legs + 100})
	if err != nil {
		return began, nil, err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	legs := make([]*leg, s.legs)
	defer func() {
		for _, l := range legs {
			if l != nil {
				_ = l.conn.Close()
			}
		}
	}()
	opening, openCtx := errgroup.WithContext(ctx)
	opening.SetLimit(openers)
	for i := range legs {
		opening.Go(func() (err error) {
			legs[i], err = lab.through.open(openCtx)
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return began, nil, err
	}
	began = time.Now()
	// Everybody has renewed once by then: a session's risk begins before its end.
	until := began.Add(s.life)
	stop := context.AfterFunc(ctx, func() {
		for _, l := range legs {
			_ = l.conn.NetConn().Close()
		}
	})
	defer stop()
	samples := make([][]sample, len(legs))
	var group errgroup.Group
	for i, l := range legs {
		group.Go(func() (err error) {
			samples[i], err = l.live(until, i < busyLegs, time.Duration(i)*legPace/time.Duration(len(legs)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return began, nil, errors.Join(context.Cause(ctx), lab.gateway.failed(err))
	}
	return began, slices.Concat(samples...), nil
}

// live makes one request after the other, at once or in the pace, until the time is up.
func (l *leg) live(until time.Time, busy bool, first time.Duration) (all []sample, err error) {
	frame := load{kind: produce, records: 100}.frame()
	if !busy {
		time.Sleep(first)
	}
	last := int64(-1)
	for id := uint32(2); time.Now().Before(until); id++ {
		sent := time.Now()
		if err := l.send(frame, id); err != nil {
			return nil, err
		}
		if err := l.receive(id); err != nil {
			return nil, err
		}
		login, err := l.loginNumber()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		all = append(all, sample{now, now.Sub(sent), last >= 0 && login != last, busy})
		if last = login; !busy {
			time.Sleep(time.Until(sent.Add(legPace)))
		}
	}
	return all, nil
}

// loginNumber finds the base offset in a Produce v12 answer of one topic and partition:
// behind the frame's head (8), the header's tags (1), the count of topics (1), the name
// with its length, the count of partitions (1), the partition (4) and its error (2).
func (l *leg) loginNumber() (int64, error) {
	at := 8 + 1 + 1 + 1 + len(clientID) + 1 + 4 + 2
	if len(l.answer) < at+8 {
		return 0, fmt.Errorf("a Produce answer of %d bytes", len(l.answer))
	}
	if code := binary.BigEndian.Uint16(l.answer[at-2:]); code != 0 {
		return 0, fmt.Errorf("produced with error %d", code)
	}
	return int64(binary.BigEndian.Uint64(l.answer[at:])), nil
}

// second is what one second of the run had.
type second struct{ busy, renewals int }

// renewalReport makes a text of a run. Steady are the seconds without a renewal.
func renewalReport(began time.Time, all []sample) (string, error) {
	seconds := map[int]*second{}
	for _, s := range all {
		n := int(s.at.Sub(began) / time.Second)
		if seconds[n] == nil {
			seconds[n] = &second{}
		}
		if s.busy {
			seconds[n].busy++
		}
		if s.renewed {
			seconds[n].renewals++
		}
	}
	last := 0
	for n := range seconds {
		last = max(last, n)
	}
	var quiet, loaded []float64
	most, there, renewals := 0, 0.0, 0
	for n, s := range seconds {
		renewals += s.renewals
		switch {
		case n < warmUp || n >= last: // the last one is not whole
		case s.renewals == 0:
			quiet = append(quiet, float64(s.busy))
		default:
			loaded = append(loaded, float64(s.busy))
			if s.renewals > most {
				most, there = s.renewals, float64(s.busy)
			}
		}
	}
	if len(quiet) < quietSeconds || len(loaded) == 0 {
		return "", fmt.Errorf("%d seconds without renewals and %d with some: too few", len(quiet), len(loaded))
	}
	steady := median(quiet)
	var met, rest []time.Duration
	for _, s := range all {
		n := int(s.at.Sub(began) / time.Second)
		switch {
		case n < warmUp:
		case s.renewed:
			met = append(met, s.took)
		case seconds[n].renewals == 0:
			rest = append(rest, s.took)
		}
	}
	return fmt.Sprintf("  renewals: %d, at most %d in a second\n"+
		"  requests/s of %d busy connections: %s without renewals; %s (%.2f) in seconds with some; %s (%.2f) in the second with the most\n"+
		"  p50 / p99 / p99.9: %s without renewals; %s of requests that met one\n",
		renewals, most, busyLegs, short(steady), short(median(loaded)), median(loaded)/steady, short(there), there/steady,
		quantiles(rest), quantiles(met)), nil
}

// quantiles writes down three of some durations.
func quantiles(d []time.Duration) string {
	slices.Sort(d)
	var out []string
	for _, q := range []float64{0.5, 0.99, 0.999} {
		out = append(out, d[min(len(d)-1, int(q*float64(len(d))))].Round(10*time.Microsecond).String())
	}
	return strings.Join(out, " / ")
}
