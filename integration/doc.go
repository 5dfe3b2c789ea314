// Package integration proves what doorkeeper promises from outside: the built
// binary, real brokers and real clients, over sockets. One scenario a file, each
// opening with what it proves. The harness that runs all of them is the package
// beside it; what clients wrote is judged by the package checker.
//
// The tests have the build tag "integration" and need root, a JDK, Maven,
// Python, kcat, Node.js and Rust; what is missing they list, and fail. Clients in Python,
// JavaScript, Go and Rust are in directories of their own here, with lock files; what they
// need is fetched and built once on a machine (harness/cache.go). Settings from the
// environment:
//
//   - DOORKEEPER_KAFKA_VERSION: the brokers' version, 4.4.0 otherwise
//   - DOORKEEPER_ENGINE: docker, or processes (the default): how brokers run
//   - DOORKEEPER_KAFKA_IMAGE: in Docker, from this image; otherwise from Kafka's official
//     one, or where it cannot be pulled from one that is built of Kafka's jars
//   - DOORKEEPER_CONFORMANCE_REPORT: where TestConformance writes its report; otherwise
//     it checks docs/conformance.md
//   - DOORKEEPER_SLOW: full, for slow readers of answers of 100 MB, and 200 that pause
//   - DOORKEEPER_TROUBLE: full, for a broker killed, stopped and late at each step of a renewal
//   - DOORKEEPER_SOAK: how long tests that load for a time do so, e.g. 10m
//   - DOORKEEPER_RENEWAL, DOORKEEPER_RENEWAL_MODE, DOORKEEPER_RENEWAL_KIND: for how long,
//     over which ends and in which way sessions are renewed (renewal_test.go)
//   - DOORKEEPER_RENEWALS: how many renewals TestRenewalsAtAnyMoment waits for
//   - DOORKEEPER_TOKEN_LIFE: the long forms of TestTokenLife..., and how long the first of
//     them loads, e.g. 12m
//   - DOORKEEPER_KEEP: leaves the run's directory with all logs in place
package integration
