// Package admin is the operator's view: Prometheus metrics, liveness, readiness
// and a small status page, on a listener of its own. It knows no other package
// of the gateway; what it shows is handed to it, as counts by Metrics' methods and
// as functions in Config.
//
//   - metrics.go: the metrics; Metrics satisfies the observer interfaces of the
//     packages that report to it
//   - server.go:  the listener and its pages
//
// There are no profiles and nothing here changes anything. The listener has
// neither TLS nor a login, so it belongs on loopback or a guarded network.
//
// Goroutines: those of net/http, all ended when Run has returned.
package admin
