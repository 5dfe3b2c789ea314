// Package certtest makes certificates for tests: authorities, leaves with any
// subject and any validity, and the files that Go, Java and librdkafka read.
//
//	clients := certtest.NewCA("client-ca")
//	alice := clients.Issue(certtest.Leaf{CommonName: "alice"})
//	conn, err := tls.Dial("tcp", addr, alice.ClientConfig(servers))
//	files := alice.Write(dir, "alice") // alice.crt, alice.key, alice.pem
//
// Read it in this order:
//
//   - authority.go: CA: roots, intermediates, issuers that must not issue
//   - leaf.go:      Leaf (what is asked for) and its certificate template
//   - issued.go:    Issued (what came out): crypto/tls configurations, PEM, files
//   - subject.go:   subjects as raw DER, of every string type and shape
//
// Nothing is read from or left on the machine but by the Write functions. There
// are no goroutines; all values may be used by several at once. Every function
// panics where it cannot do what it says: a test has no better answer to a
// template that makes no sense or to a full disk.
package certtest
