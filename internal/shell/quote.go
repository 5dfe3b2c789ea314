// Package shell writes what people paste into a terminal. It imports nothing of the
// project.
package shell

import "strings"

// Quote is s as one word of a POSIX shell, in quotes only where it needs them.
func Quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+", r)
	}) {
		return s
	}
	return Quoted(s)
}

// Quoted is s as one word of a POSIX shell, always in quotes: for words that people
// will change to others that need them.
func Quoted(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
