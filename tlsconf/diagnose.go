package tlsconf

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"strings"
)

// blockEncrypted is PKCS#8's own encryption; the older formats say it in a header.
const blockEncrypted = "ENCRYPTED PRIVATE KEY"

func isEncrypted(b *pem.Block) bool {
	return b.Type == blockEncrypted || strings.Contains(b.Headers["Proc-Type"], "ENCRYPTED")
}

// diagnoseBlock says what a PEM block is that was not asked for, and what to do.
func diagnoseBlock(b *pem.Block, file string) (problem, cure string) {
	switch b.Type {
	case "TRUSTED CERTIFICATE", "X509 CERTIFICATE":
		return "holds a block " + b.Type + ", a form of openssl's own", "rewrite it: openssl x509 -in " + file + " -out NEW"
	case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST":
		return "is a request for a certificate", "give the certificate that the authority made of it"
	case "PKCS7", "CMS":
		return "is a PKCS#7 bundle", "unpack it: openssl pkcs7 -in " + file + " -print_certs -out NEW"
	case "X509 CRL":
		return "holds a revocation list", "take it out: it belongs in listen.tls.crl"
	case "PUBLIC KEY", "RSA PUBLIC KEY":
		return "holds a bare public key", "give the certificate or the private key"
	case "OPENSSH PRIVATE KEY":
		return "is a key of OpenSSH's own form", "rewrite it: ssh-keygen -p -m PKCS8 -f COPY"
	case "DSA PRIVATE KEY":
		return "is a DSA key, which TLS no longer knows", "have a pair issued with an ECDSA, RSA or Ed25519 key"
	}
	return fmt.Sprintf("holds a PEM block of the type %s, which has no place here", clip(b.Type)), "take it out"
}

// diagnoseBinary says what a file without any PEM block is.
func diagnoseBinary(content []byte, file string) (problem, cure string) {
	switch {
	case bytes.HasPrefix(content, []byte{0xfe, 0xed, 0xfe, 0xed}), bytes.HasPrefix(content, []byte{0xce, 0xce, 0xce, 0xce}):
		return "is a Java keystore", "convert it: keytool -importkeystore -srckeystore " + file +
			" -destkeystore NEW.p12 -deststoretype PKCS12, then openssl pkcs12 -in NEW.p12 -nodes -out NEW.pem"
	case isUTF16(content):
		return "is text in UTF-16", "save it as plain ASCII"
	}
	var outer, first asn1.RawValue
	if rest, err := asn1.Unmarshal(content, &outer); err != nil || len(bytes.TrimSpace(rest)) > 0 || outer.Tag != asn1.TagSequence {
		return "is not PEM: it has no line -----BEGIN ...-----", "give the file in PEM form"
	}
	if _, err := x509.ParseCertificate(outer.FullBytes); err == nil {
		return "is a certificate in DER form", "convert it: openssl x509 -inform der -in " + file + " -out NEW"
	}
	if _, err := asn1.Unmarshal(outer.Bytes, &first); err == nil {
		switch {
		case first.Tag == asn1.TagInteger && bytes.Equal(first.Bytes, []byte{3}):
			return "is a PKCS#12 file", "unpack it: openssl pkcs12 -in " + file + " -nodes -out NEW"
		case first.Tag == asn1.TagInteger:
			return "is a private key in DER form", "convert it: openssl pkey -inform der -in " + file + " -out NEW"
		case first.Tag == asn1.TagOID:
			return "is a PKCS#7 bundle in DER form", "unpack it: openssl pkcs7 -inform der -in " + file + " -print_certs -out NEW"
		}
	}
	return "is binary (DER), not PEM", "convert it with openssl"
}

func isUTF16(content []byte) bool {
	return bytes.HasPrefix(content, []byte{0xff, 0xfe}) || bytes.HasPrefix(content, []byte{0xfe, 0xff})
}
