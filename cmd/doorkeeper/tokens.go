package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"doorkeeper/admin"
)

// tokensBound is how long the gateway's answer may take: an expiry, and the page.
const tokensBound = 45 * time.Second

// tokensCommand is the flags of the command and its two sub-commands.
type tokensCommand struct {
	List   tokensListFlags   `cmd:"" help:"Show owners with the state of their token, its age, the time left, the brokers that are known to have it, and the sessions. Exit code 0 or 1."`
	Expire tokensExpireFlags `cmd:"" help:"Expire the tokens of an owner and end the owner's sessions at this gateway. Clients come back with a new token, as long as their certificates are accepted. Exit code 0 or 1."`
}

// tokensFlags say which gateway is meant, and how to get at it.
type tokensFlags struct {
	Config      string `placeholder:"FILE" help:"The gateway's configuration file (YAML). Only admin is looked at."`
	Admin       string `placeholder:"ADDRESS" help:"The gateway's admin address, in place of the one in the file: HOST:PORT, or with http:// or https:// in front."`
	CA          string `name:"ca" placeholder:"FILE" help:"Where the admin address has TLS: the authorities that issued its certificate (PEM)."`
	Certificate string `placeholder:"FILE" help:"The operator's own certificate (PEM), of a name in admin.allow."`
	Key         string `placeholder:"FILE" help:"Its key (PEM)."`
	JSON        bool   `name:"json" help:"Print one JSON document."`
}

type tokensListFlags struct {
	tokensFlags `embed:""`
}

type tokensExpireFlags struct {
	Owner       string `arg:"" help:"The principal, without \"User:\"."`
	tokensFlags `embed:""`
}

// tokensList shows the owners of a gateway that runs, and returns the exit code.
func tokensList(ctx context.Context, flags tokensListFlags, env environment) int {
	var listing admin.Listing
	return flags.ask(ctx, env, http.MethodGet, admin.PathTokens, nil, "", &listing, func(out terminal) {
		showListing(out, &listing)
	})
}

// tokensExpire expires an owner's tokens, ends its sessions, and returns the exit code:
// 0 where one of both was there and is gone.
func tokensExpire(ctx context.Context, flags tokensExpireFlags, env environment) int {
	if name, found := strings.CutPrefix(flags.Owner, "User:"); found {
		return fail(env.stderr, exitUsage, fmt.Errorf("write the owner's name alone: %s", quote(name)))
	}
	body, err := json.Marshal(admin.Expiry{Owner: flags.Owner})
	if err != nil {
		return fail(env.stderr, exitFailure, err)
	}
	var done admin.Expired
	return flags.ask(ctx, env, http.MethodPost, admin.PathExpire, body, flags.Owner+": ", &done, func(out terminal) {
		showExpired(out, flags.Owner, &done)
	})
}

// ask gets one answer of the gateway into document and shows it, as JSON or by show;
// about stands before what went wrong. It ends after tokensBound, or with a signal.
func (f tokensFlags) ask(ctx context.Context, env environment, method, path string, body []byte, about string, document any, show func(terminal)) int {
	desk, err := f.desk(env.environ)
	if err != nil {
		return fail(env.stderr, exitUsage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, tokensBound)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	over := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for {
			select {
			case s := <-env.signals:
				if s != syscall.SIGHUP {
					interrupt(errTokensInterrupted)
				}
			case <-over:
				return
			}
		}
	}()
	err = desk.ask(ctx, method, path, body, document)
	close(over)
	<-watching

	sheet := checkSheet{out: newTerminal(env.stdout, env.environ)}
	var problem *admin.Problem
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errTokensInterrupted):
		if method != http.MethodGet {
			return fail(env.stderr, checkInterrupted, fmt.Errorf("%w; the gateway goes on with what was asked", errTokensInterrupted))
		}
		return fail(env.stderr, checkInterrupted, errTokensInterrupted)
	case err != nil:
		if !errors.As(err, &problem) {
			problem = &admin.Problem{Code: problemUnreachable, Text: err.Error()}
		}
		if f.JSON {
			sheet.encode(admin.Failed{Problem: problem})
		}
		return fail(env.stderr, exitFailure, errors.New(oneLine(about+problem.Error())))
	case f.JSON:
		sheet.encode(document)
	default:
		show(sheet.out)
	}
	return exitOK
}

var errTokensInterrupted = errors.New("interrupted")

// problemUnreachable is the code of what never got to a gateway.
const problemUnreachable admin.ProblemCode = "unreachable"
