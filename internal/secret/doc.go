// Package secret holds values that must never be printed: the passwords of
// delegation tokens and the keys derived from them.
//
// A Text shows "[redacted]" under every fmt verb and in every encoder. The one
// way to its contents is Reveal, so that a search for ".Reveal(" lists every
// place where a secret leaves its cover.
//
// The package has no goroutines. A Memo derives each of its values once, however
// many callers ask for it at the same time.
package secret
