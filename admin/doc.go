// Package admin is the operator's view: Prometheus metrics, liveness, readiness, a
// small status page, and the pages of tokens, on a listener of its own. It knows no
// other package of the gateway; what it shows and does is handed to it, as counts by
// Metrics' methods and as functions in Config.
//
//   - metrics.go: the metrics; Metrics satisfies the observer interfaces of the
//     packages that report to it
//   - server.go:  the listener and its pages; slots.go: how many connections it has
//   - guard.go:   who may ask about tokens
//   - tokens.go:  the owners' tokens, and expiring one; problem.go: why that came to
//     nothing
//
// There are no profiles. Everybody who reaches the address may read metrics,
// liveness, readiness and the status page, over HTTP or, with Config.TLS, HTTPS; they
// change nothing and hold no names of owners. So it belongs on loopback or a guarded
// network.
//
// # Tokens
//
// GET /tokens lists owners, POST /tokens/expire expires one owner's tokens and ends its
// sessions: JSON, for `doorkeeper tokens`. They exist on loopback, for programs of this
// machine (which then is the boundary: whoever has an account on it may), or over TLS
// for those that Tokens.Who names; elsewhere they answer 404 and say why. Browsers are
// refused in any case (guard.go). Bodies have 8 KiB, two lists and four expiries go at a
// time, and an expiry has 30 s; one that has begun goes on when its caller goes away.
// Every expiry is logged with who asked for it, and so is every refusal, at debug level
// where anybody could have caused it.
//
// Goroutines: those of net/http, all ended when Run has returned, but for pages under
// way that are not about tokens, which are made at once.
package admin
