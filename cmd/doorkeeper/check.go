package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"doorkeeper/connections"
	"doorkeeper/internal/wire"
	"doorkeeper/tokens"
)

// The bounds of a check. One hop (TCP, TLS, login) has timeouts.dial.
const (
	checkBound   = 2 * time.Minute  // everything but the cleaning up
	checkRequest = 20 * time.Second // one request on a connection that is logged in
	checkKnown   = 30 * time.Second // for a token to be known on a broker
	checkResolve = 5 * time.Second  // for one name
	checkClean   = 10 * time.Second // for expiring what was made
	checkAtOnce  = 16               // hops side by side
)

// checkFlags are the flags of the command.
type checkFlags struct {
	Config string `required:"" placeholder:"FILE" help:"The configuration file (YAML), as for serve."`
	Owner  string `placeholder:"NAME" help:"A principal that clients have, whose token is made, used and expired. By default the first of identity.allow."`
	JSON   bool   `name:"json" help:"Print one JSON document: results with step, target, status (ok, warning, failed, not_run), finding and cure."`
}

// The steps, in their order.
const (
	stepConfiguration = "configuration"
	stepFiles         = "files"
	stepControl       = "control_login"
	stepRights        = "token_rights"
	stepKey           = "secret_key"
	stepMetadata      = "metadata_version"
	stepToken         = "token_login"
	stepReauth        = "reauthentication"
	stepLifetime      = "session_lifetime"
	stepListeners     = "listeners"
	stepNames         = "advertised_names"
	stepBrokers       = "broker_addresses"
	stepCleaning      = "cleaning_up"
)

// checkInterrupted is the exit code after Ctrl-C, as shells have it.
const checkInterrupted = 130

var (
	errCheckInterrupted = errors.New("interrupted")
	errCheckTime        = fmt.Errorf("the check may take %s, and that is over", checkBound)
)

// check looks at every hop of a set-up without serving, and returns the exit code: 0
// where everything is in order, warnings allowed, 1 where it is not. It ends within
// checkBound and checkClean more; a signal ends it sooner, and a second one its
// cleaning up.
func check(ctx context.Context, flags checkFlags, env environment) int {
	_ = harden() // before the first secret is read; serve says where it does not work
	ctx, cancel := context.WithTimeoutCause(ctx, checkBound, errCheckTime)
	defer cancel()
	running, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	cleaning, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()

	var watching sync.WaitGroup
	over := make(chan struct{})
	watching.Go(func() {
		for {
			select {
			case <-over:
				return
			case s := <-env.signals:
				switch {
				case s == syscall.SIGHUP:
				case running.Err() == nil:
					interrupt(errCheckInterrupted)
				default:
					abandon()
				}
			}
		}
	})
	defer watching.Wait()
	defer close(over)

	c := &checker{flags: flags, environ: env.environ, mark: fmt.Sprintf("%scheck-%08x", tokens.MarkerPrefix, rand.Uint32()), sheet: checkSheet{out: newTerminal(env.stdout, env.environ), json: flags.JSON}}
	defer c.close()
	c.run(running)
	c.clean(cleaning)

	switch {
	case flags.JSON:
		c.sheet.encode(checkDocument{Version: version(), Config: flags.Config, OK: c.sheet.good(), Results: c.sheet.results})
	default:
		c.sheet.sum(env.stdout)
	}
	switch {
	case errors.Is(context.Cause(running), errCheckInterrupted):
		return checkInterrupted
	case !c.sheet.good():
		return exitFailure
	}
	return exitOK
}

// checker is one check under way. Steps run one after the other, each of them with its
// hops side by side; what they find they leave here for those behind them.
type checker struct {
	flags   checkFlags
	environ []string
	sheet   checkSheet

	// Of the configuration and its files.
	config   *Config
	report   *report
	material material
	own      []byte // the gateway's certificate towards clients, DER

	// Of the control listeners.
	control      *connections.Dialer
	controlNodes checkCluster
	controls     []*checkHop // one for each node and each bootstrap address
	gateway      string      // own principal, without "User:"
	made         []*checkToken
	mark         string // the renewer that all of them name: no client's name, and no other check's
	lost         bool   // a creation got no answer: it may have made something

	// Of the token listeners.
	tokens     *connections.Dialer
	tokenNodes checkCluster
	logins     []*checkHop
}

// run goes through the steps. Once ctx has ended, those that are left are not run.
func (c *checker) run(ctx context.Context) {
	for _, step := range []struct {
		name string
		run  func(context.Context) []checkResult
	}{
		{stepConfiguration, c.checkConfiguration},
		{stepFiles, c.checkFiles},
		{stepControl, c.checkControl},
		{stepRights, c.checkRights},
		{stepKey, c.checkKeys},
		{stepMetadata, c.checkMetadata},
		{stepToken, c.checkTokenLogins},
		{stepReauth, c.checkReauthentication},
		{stepLifetime, c.checkLifetimes},
		{stepListeners, c.checkListeners},
		{stepNames, c.checkNames},
		{stepBrokers, c.checkBrokers},
	} {
		if ctx.Err() != nil {
			c.sheet.add(checkBad(step.name, "", checkNotRun, "not reached: "+context.Cause(ctx).Error(), ""))
			continue
		}
		results := step.run(ctx)
		if ctx.Err() != nil {
			// What failed then may have failed for that.
			for i, r := range results {
				if r.Status == checkFailed {
					results[i] = checkBad(r.Step, r.Target, checkNotRun, fmt.Sprintf("cut short: %v", context.Cause(ctx)), "")
				}
			}
		}
		c.sheet.add(results...)
	}
}

// close ends all connections.
func (c *checker) close() {
	var closing sync.WaitGroup
	for _, hop := range append(c.controls, c.logins...) {
		if hop.conn != nil {
			closing.Go(func() { _ = hop.conn.Close() })
		}
	}
	closing.Wait()
}

// dialer makes one for the control or the token listeners.
func (c *checker) dialer(cfg connections.Config) *connections.Dialer {
	cfg.Buffers = wire.NewBuffers()
	cfg.DialTimeout = c.config.Timeouts.Dial.span()
	cfg.OwnCertificate = func() []byte { return c.own }
	return connections.NewDialer(cfg)
}

// checkEach runs f for 0 to n-1, some at a time, and returns when all have.
func checkEach(n int, f func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, checkAtOnce)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	group.Wait()
}
