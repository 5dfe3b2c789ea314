// Package harness runs what the integration tests need as processes of this
// machine: Kafka clusters, the gateway's binary, Java clients.
//
//   - site.go:        one test run: its directory, its loopback network, what is needed
//   - authorities.go: the three certificate authorities and who has which certificate
//   - jars.go:        Kafka of a given version, from Maven, fetched once
//   - process.go:     a child process that does not outlive the run
//   - engine.go:      how a Kafka node is run; processes.go: as a process of this machine
//   - properties.go:  a node's configuration; listeners.go: more listeners for it
//   - cluster.go:     N combined KRaft nodes; node.go: one of them, and trouble for it
//   - admin.go, grants.go, topics.go: what an administrator of the cluster does
//   - document.go, gateway.go, observe.go: the binary, its configuration, its logs and figures
//   - namespace.go:   a network in which nothing but the gateway can be reached
//   - java.go:        the Java client, in there; records.go: the records that all clients agree on
//   - dials.go:       franz-go with every dialled address on record
//   - raw.go:         one connection, byte by byte
//   - relay.go:       a TCP relay that can be made to fail
//
// A Site owns everything; Close ends it and waits. Each child is bound to the
// run's life by the kernel too (PR_SET_PDEATHSIG), so that a run that is killed
// leaves no process, no network interface and no namespace behind. Two runs can
// stand side by side: each takes a loopback network of its own.
//
// Nothing here is a stand-in: what a scripted peer must do is the tests' own.
package harness
