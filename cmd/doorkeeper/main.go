package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	exitOK      = 0 // ended as asked
	exitFailure = 1 // failed while running, or stopped by force
	exitUsage   = 2 // wrong flags or configuration
)

// cli is the commands and flags.
type cli struct {
	Serve struct {
		Config string `required:"" placeholder:"FILE" help:"The configuration file (YAML). Every key can also come from the environment: tokens.lifetime from DOORKEEPER_TOKENS_LIFETIME."`
	} `cmd:"" help:"Serve clients until SIGTERM or SIGINT; a second one ends at once."`
	Check  checkFlags    `cmd:"" help:"Look at every hop of a set-up, as it would be served, and say what to change; nothing is served and nothing left behind. It ends within two minutes. Exit code 0: all is in order; 1: it is not."`
	Whoami whoamiFlags   `cmd:"" help:"Tell which principal a client's certificate maps to, and by which rule, or why it is refused. Exit code 0 or 1."`
	Grants grantsFlags   `cmd:"" help:"Print the kafka-acls commands that give the gateway exactly the rights that it needs. Nothing is dialled."`
	Tokens tokensCommand `cmd:"" help:"Show the tokens and sessions of a gateway that runs, or expire those of an owner."`
	Dev    struct {
		Once bool   `help:"End after the proof, with 0 if it held and 1 if not."`
		Dir  string `placeholder:"DIR" help:"Where certificates, settings and the log go; a new temporary directory if not given."`
	} `cmd:"" help:"Try it: embedded brokers, a throw-away authority and the gateway, which proves itself and then serves until Ctrl-C."`
	Version struct{} `cmd:"" help:"Show which build this is."`
}

func main() {
	signals := make(chan os.Signal, 4)
	// SIGHUP is taken so that it does not end the process: reloading comes later.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	os.Exit(run(context.Background(), environment{
		args: os.Args[1:], environ: os.Environ(), signals: signals, stdout: os.Stdout, stderr: os.Stderr,
	}))
}

// environment is what the process was started with.
type environment struct {
	args           []string
	environ        []string // NAME=value
	signals        <-chan os.Signal
	stdout, stderr io.Writer
}

// run does what the arguments ask for and returns the exit code.
func run(ctx context.Context, env environment) int {
	var (
		flags  cli
		exited = -1 // set by --help, which kong answers itself
	)
	parser, err := kong.New(&flags, kong.Name("doorkeeper"),
		kong.Description("An authentication gateway in front of Apache Kafka: client certificates in, each client's own identity at the brokers out."),
		kong.Writers(env.stdout, env.stderr), kong.Exit(func(code int) { exited = code }), kong.UsageOnError())
	if err != nil {
		return fail(env.stderr, exitFailure, err)
	}
	parsed, err := parser.Parse(env.args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		return fail(env.stderr, exitUsage, fmt.Errorf("%w; see doorkeeper --help", err))
	}
	switch parsed.Command() {
	case "version":
		_, _ = fmt.Fprintln(env.stdout, "doorkeeper", version())
		return exitOK
	case "check":
		return check(ctx, flags.Check, env)
	case "whoami <cert>":
		return whoami(flags.Whoami, env)
	case "grants":
		return grants(flags.Grants, env)
	case "tokens list":
		return tokensList(ctx, flags.Tokens.List, env)
	case "tokens expire <owner>":
		return tokensExpire(ctx, flags.Tokens.Expire, env)
	case "dev":
		err = dev(ctx, devOptions{once: flags.Dev.Once, dir: flags.Dev.Dir}, env)
	default:
		err = serve(ctx, flags.Serve.Config, env)
	}
	var (
		config      *ConfigError
		interrupted interruptedError
	)
	switch {
	case errors.As(err, &interrupted):
		return interrupted.exitCode()
	case errors.As(err, &config):
		return fail(env.stderr, exitUsage, config)
	case err != nil:
		return fail(env.stderr, exitFailure, err)
	}
	return exitOK
}

func fail(w io.Writer, code int, err error) int {
	_, _ = fmt.Fprintln(w, "doorkeeper:", err)
	return code
}
