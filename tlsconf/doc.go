// Package tlsconf turns certificate files and mapping rules into two things: TLS
// configurations, and the identity of a client that came with a certificate. It
// knows no Kafka connection and no token.
//
// Read it in this order:
//
//   - source.go:      Config, New, Source and the Snapshot that it publishes
//   - files.go:       PEM files: the pair, the authorities
//   - diagnose.go:    what a file is that is not what was asked for
//   - policy.go:      the server's TLS settings, the bounds of a client's chain
//   - identity.go:    verified chain -> Identity, or a Refusal
//   - dn.go:          the subject as a Java broker prints it
//   - altnames.go:    subject alternative names, from the raw extension
//   - rules.go:       Kafka's ssl.principal.mapping.rules
//   - pattern.go:     the part of Java's regular expressions that RE2 shares
//   - brackets.go:    of that, what stands in brackets
//   - loops.go:       what a pattern's shape says about where it matches
//   - replacement.go: the replacement of a rule, and its case flags
//   - names.go:       names and characters that no client may have
//   - handshake.go:   why a handshake failed, in an operator's words
//   - client.go:      the configuration for connections to brokers
//   - operators.go:   the configuration of the admin address, and who may do what there
//   - inspect.go:     each file of the configuration, looked at by itself
//   - explain.go:     a client's certificate, step by step; clientfile.go: its file
//   - errors.go:      ConfigError, Refusal
//
// # Contract
//
// What a client is called comes from the raw certificate, and is either exactly
// what a broker with the same certificate and the same rules would call it, or
// the client is refused. Nothing is guessed, trimmed, normalised or unescaped.
// A file that cannot be taken whole is an error: there is no fallback, neither to
// the system's authorities nor to the readable half of a bundle.
//
// The package has no goroutines and no locks: snapshots never change and are
// published by an atomic pointer. Files are read by New, NewClient, NewMapping,
// NewOperators, the Inspect functions and Explain alone, and only regular ones.
package tlsconf
