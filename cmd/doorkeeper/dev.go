package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// devOptions are the flags of `doorkeeper dev`.
type devOptions struct {
	once bool   // end after the proof
	dir  string // "": a new temporary one
}

// interruptedError is the end that a signal asked for.
type interruptedError struct{ signal syscall.Signal }

func (e interruptedError) Error() string { return "interrupted: " + e.signal.String() }

// exitCode is what a shell gives for a command that the signal ended: 130 for Ctrl-C.
func (e interruptedError) exitCode() int { return 128 + int(e.signal) }

// dev runs embedded brokers and the gateway in front of them, proves on itself what
// the gateway is for, and then serves until a signal comes, unless o.once is set. It
// returns nil when the proof held and nobody interrupted it, an interruptedError
// after a signal, and has ended everything that it started by then; a second signal
// does not wait for that.
func dev(ctx context.Context, o devOptions, env environment) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- runDev(ctx, o, env) }()
	var interrupted *interruptedError
	for {
		select {
		case err := <-done:
			if interrupted != nil {
				return *interrupted
			}
			return err
		case s := <-env.signals:
			if interrupted != nil {
				return *interrupted
			}
			number, _ := s.(syscall.Signal) // what else there is on no system that Go knows
			interrupted = &interruptedError{number}
			stop()
		}
	}
}

// runDev is dev without the signals: ctx is what ends it.
func runDev(ctx context.Context, o devOptions, env environment) (err error) {
	began := time.Now()
	out := newTerminal(env.stdout, env.environ)
	dir, err := openDevDirectory(o.dir)
	if err != nil {
		return err
	}
	defer func() {
		switch {
		case err == nil || ctx.Err() != nil:
			err = errors.Join(err, dir.close())
		default: // what is in there tells why
			err = fmt.Errorf("%w\nthe gateway's log is %s", err, dir.file(devLogFile))
		}
	}()
	log, err := openDevLog(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()

	kafka, err := startDevKafka(ctx, began, newLogger(Log{Format: formatConsole}, log).Named("embedded kafka"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.close()) }()
	gateway, err := startDevGateway(ctx, dir, kafka, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gateway.close()) }()
	_, _ = fmt.Fprintf(out, "%s\n\n", out.title(fmt.Sprintf("Three embedded brokers, and the gateway in front at %s", gateway.bootstrap)))

	if err := gateway.awaitReady(ctx); err != nil {
		return err
	}
	if err := (&devProof{kafka: kafka, gateway: gateway}).prove(ctx, out); err != nil {
		return err
	}
	if o.once {
		_, _ = fmt.Fprintf(out, "\nProved in %.1f s.\n", time.Since(began).Seconds())
		return nil
	}
	kafka.calm()
	if err := writeGuide(out, dir, gateway.bootstrap); err != nil {
		return err
	}
	return gateway.run(ctx)
}
