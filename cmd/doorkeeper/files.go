package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"doorkeeper/internal/secret"
)

// maxPassword bounds a password file, in bytes.
const maxPassword = 4 << 10

// readPassword reads the password of the control login: the file's contents less
// one line end. A file that others may read is a warning. No message ever holds
// the contents.
func readPassword(path string, r *report) secret.Text {
	const key = "kafka.control.sasl.password_file"
	data, err := readBounded(path, maxPassword)
	if err != nil {
		r.addOnce(key, "%v; name the file that holds the password", err)
		return secret.Text{}
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case password == "":
		r.addOnce(key, "%s is empty; write the password into it", quote(path))
	case strings.ContainsAny(password, "\x00\r\n"):
		r.addOnce(key, "%s has more than one line; write the password alone", quote(path))
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		r.warn("%s: %s has mode %04o, so that others can read the password; set it to 0600 or 0400", key, quote(path), info.Mode().Perm())
	}
	return secret.New(password)
}

// addErrors reports what other packages found wrong with what the keys name. Each
// error's text begins with the key it is about; one about a key that has its
// problem already is left out.
func (r *report) addErrors(err error) {
	if err == nil {
		return
	}
	// Only a plain list comes apart: an error that wraps two in one sentence is one.
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		if errs := list.Unwrap(); err.Error() == errors.Join(errs...).Error() {
			for _, e := range errs {
				r.addErrors(e)
			}
			return
		}
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // a problem is one line
	path, rest, found := strings.Cut(text, ": ")
	if !found || !isKey(path) {
		r.add("", "%s", text)
		return
	}
	r.addOnce(path, "%s", rest)
}

// isKey tells whether path is a key, a mapping of keys, or an entry of a list.
func isKey(path string) bool {
	var entry int
	if open := strings.LastIndexByte(path, '['); open > 0 && strings.HasSuffix(path, "]") {
		if _, err := fmt.Sscanf(path[open:], "[%d]", &entry); err != nil {
			return false
		}
		path = path[:open]
	}
	for _, k := range schema() {
		if k.path == path || strings.HasPrefix(k.path, path+".") {
			return true
		}
	}
	return false
}
