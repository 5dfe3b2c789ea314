// Command doorkeeper is an authentication gateway in front of Apache Kafka.
//
// Read it in this order:
//
//   - main.go:     commands, flags and exit codes
//   - config.go:   the configuration file, typed, with its defaults
//   - values.go:   the types of its values; each parses its own text
//   - schema.go:   the keys, found from the types
//   - load.go:     YAML → Config; every problem at once (problems.go)
//   - env.go:      environment → Config
//   - validate.go: what must hold between the keys; files.go: what must lie on disk
//   - log.go, process.go, process_*.go: the logger; limits of the process itself;
//     collector.go: when garbage is collected
//   - build.go:    the parts, made in order and undone in reverse
//   - control.go:  the control client; status.go: node status's own connections;
//     loops.go: noticing that either leads back here
//   - view.go:     readiness and the status page; operators.go: what the admin pages show of
//     tokens, and do to them; version.go: which build this is
//   - serve.go:    signals; supervise.go: who runs, and who stops before whom
//   - check.go:    the command check: its steps and bounds; check_sheet.go: its results;
//     check_config.go, check_files.go, check_hop.go (a listener, and the walk to all of
//     them), check_control.go, check_tokens.go, check_keys.go, check_login.go,
//     check_listeners.go, check_names.go, check_brokers.go: the steps in their order
//   - whoami.go:   the command whoami; grants.go: the command grants
//   - tokens.go:   the command tokens; tokens_desk.go: asking a gateway that runs,
//     tokens_show.go: what it answered
//   - dev.go:      the command dev; dev_directory.go: its files and certificates,
//     dev_kafka.go: the embedded brokers, dev_gateway.go: the gateway in front,
//     dev_proof.go: what alice and bob do, dev_guide.go: what can be pasted;
//     terminal.go: colours
//
// This is the only package that knows flags, environment, files of settings and
// signals, and the only one that knows every other. The control client is made
// here and handed to tokens alone: the data path has no way to it.
//
// Goroutines: one per task of supervise.go and one per tier of them, the signal
// reader, and what the parts start themselves. All have ended when serve returns,
// but after a forced exit.
//
// Exit codes: 0 ended as asked, 1 failed while running, 2 wrong usage or
// configuration; of check and whoami: 0 all is in order, 1 it is not; of tokens: 0 it
// was done, 1 it was not; 130 after Ctrl-C.
package main
