// Package harness runs what the integration tests need as processes of this
// machine, or brokers in containers: Kafka clusters, the gateway's binary, clients.
//
//   - site.go:        one test run: its directory, its loopback network, what is needed
//   - authorities.go: the three certificate authorities and who has which certificate
//   - jars.go:        Kafka of a given version, from Maven, fetched once
//   - process.go:     a child process that does not outlive the run
//   - engine.go:      how a Kafka node is run; processes.go: as a process of this machine
//   - docker.go, docker_container.go: in a container on the machine's network
//   - docker_image.go: from which image; docker_build.go: one that is built from the jars
//   - properties.go:  a node's configuration; listeners.go: more listeners for it
//   - cluster.go:     N combined KRaft nodes, of one version or of several; node.go: one
//     of them, and trouble for it
//   - clock.go:       a wall clock of its own for a node
//   - admin.go, grants.go, topics.go: what an administrator of the cluster does
//   - telemetry.go: clients' metrics, as a broker with a plugin for them gets them
//   - document.go, gateway.go, observe.go: the binary, its configuration, its logs and figures
//   - namespace.go:   a network in which nothing but the gateway can be reached
//   - java.go:        the Java client, of any version, and Kafka's command-line tools, in
//     there; records.go: a count of records that clients wrote or read
//   - foreign.go, foreign_run.go: other clients' libraries; python.go, javascript.go,
//     golang.go, rust.go: what they need, and cache.go: fetched and built once; kcat.go;
//     foreign_shell.go: what is pasted into a terminal
//   - conformance_names.go: brokers with names that the gateway alone can resolve, and
//     what looks for them; conformance_login.go: token logins; conformance_fenced.go:
//     brokers and controllers that are registered and not there
//   - dials.go:       franz-go with every dialled address on record
//   - raw.go:         one connection, byte by byte
//
// A Site owns everything; Close ends it and waits. Each child is bound to the
// run's life by the kernel too (PR_SET_PDEATHSIG); what a run that is killed leaves
// all the same, containers and directories, the next one removes (leftovers.go). Two
// runs can stand side by side: each takes a loopback network of its own, and all that
// it makes has that network's number.
//
// Nothing here is a stand-in: what a scripted peer must do is the tests' own.
package harness
