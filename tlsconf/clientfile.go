package tlsconf

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// readClientFile reads a client's certificate, leaf first, from whatever form people
// keep them in: PEM, with or without its chain or its key beside it, or DER. note says
// which it was. What it cannot take it names, with the way out of it.
func readClientFile(file string) (certs []*x509.Certificate, note string, problem *ConfigError) {
	const want = "the client's certificate"
	content, err := readContent(file, "", want)
	if err != nil {
		return nil, "", asConfigError(err)
	}
	if countBegins(content) == 0 {
		if c, err := x509.ParseCertificate(content); err == nil {
			return []*x509.Certificate{c}, "is a certificate in DER form, which is taken here; clients of Kafka want PEM (openssl x509 -inform der -in " + file + " -out NEW)", nil
		}
		text, cure := diagnoseBinary(content, file)
		return nil, "", &ConfigError{File: file, Problem: text, Cure: cure}
	}
	blocks, err := decodeBlocks(content, file, "")
	if err != nil {
		return nil, "", asConfigError(err)
	}
	certs, err = chainOf(blocks, file, "", "")
	if err != nil {
		return nil, "", clientCure(asConfigError(err), blocks)
	}
	return certs, contents(blocks, len(certs)), nil
}

func asConfigError(err error) *ConfigError {
	var e *ConfigError
	if errors.As(err, &e) {
		return e
	}
	return &ConfigError{Problem: err.Error()} // of this package's readers there is none
}

// clientCure words the way out for a file that was given on a command line, not in a
// setting.
func clientCure(e *ConfigError, blocks []*pem.Block) *ConfigError {
	isKey := func(b *pem.Block) bool {
		return isEncrypted(b) || b.Type == blockPKCS8 || b.Type == blockPKCS1 || b.Type == blockSEC1
	}
	if slices.ContainsFunc(blocks, isKey) && !slices.ContainsFunc(blocks, func(b *pem.Block) bool { return b.Type == blockCertificate }) {
		e.Cure = "give the certificate that was issued for this key; the key itself is never needed here"
	}
	return e
}

// contents says what a file holds.
func contents(blocks []*pem.Block, certificates int) string {
	note := "is PEM and holds one certificate"
	if certificates > 1 {
		note = fmt.Sprintf("is PEM and holds a chain of %d certificates: the first is the client's own and counts; the client has to send the others with it", certificates)
	}
	if len(blocks) > certificates {
		note += " (and a private key, which is not read)"
	}
	return note
}
