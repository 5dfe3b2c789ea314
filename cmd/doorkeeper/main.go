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
	if parsed.Command() == "version" {
		_, _ = fmt.Fprintln(env.stdout, "doorkeeper", version())
		return exitOK
	}
	err = serve(ctx, flags.Serve.Config, env)
	var config *ConfigError
	switch {
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
