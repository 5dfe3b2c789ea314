package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// asBroker as the only argument makes this program the broker.
const asBroker = "broker"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) == 2 && os.Args[1] == asBroker {
		err = runBroker(ctx, os.Stdin, os.Stdout)
	} else {
		s := settings{kinds: []string{"reauthenticate", "swap"}}
		flag.IntVar(&s.repetitions, "repetitions", 5, "how often every case is run on either side, in turns")
		flag.Float64Var(&s.scale, "scale", 1, "of the amount of a case; 1 is some seconds a repetition")
		flag.BoolVar(&s.renewals, "renewals", false, "measure what clients see of renewals instead")
		flag.IntVar(&s.legs, "connections", 2000, "with -renewals: connections of one age")
		flag.DurationVar(&s.life, "life", 40*time.Second, "with -renewals: how long a session lives; 10 s or more")
		flag.StringVar(&s.binary, "gateway", "", "a built gateway; otherwise it is built here")
		flag.Parse()
		measure := run
		if s.renewals {
			measure = runRenewals
		}
		err = measure(ctx, s, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what a run can be told.
type settings struct {
	repetitions int
	scale       float64
	renewals    bool
	legs        int
	life        time.Duration
	kinds       []string // of renewals
	binary      string
}

// run measures everything and prints the table. It ends early when ctx does.
func run(ctx context.Context, s settings, out io.Writer) (err error) {
	// Children are bound to the life of the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lab, err := newLab(ctx, s.binary, renewing{sessionLife, "auto", 1000})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	var results results
	for repetition := range s.repetitions {
		for _, c := range cases() {
			for _, side := range lab.sides() {
				got, err := lab.measure(ctx, side, c.scaled(s.scale))
				if err != nil {
					return fmt.Errorf("%s, %s, repetition %d: %w", c.name, side.name, repetition+1, err)
				}
				results.add(c.name, side.name, got)
			}
		}
	}
	return results.print(out)
}
