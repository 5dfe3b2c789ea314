package tlsconf

import (
	"crypto/x509"
)

// Inspection is one file of the configuration, read by itself as New and NewClient
// read it.
type Inspection struct {
	Key  string // the setting that names the file
	File string
	// Certificates are those in the file: a chain, leaf first, or authorities. None for
	// a key's file, and none where Err is set.
	Certificates []*x509.Certificate
	Err          error // a *ConfigError; nil: the file can be used
}

// InspectServer looks at each of the files that New reads, one after the other:
// certificate, key, authorities of the clients.
func InspectServer(cfg Config) []Inspection {
	return append(inspectPair(cfg.Certificate, cfg.Key, "listen.tls", forServer),
		inspectAuthorities(cfg.ClientCA, "listen.tls.client_ca", onlyAuthorities))
}

// InspectClient does the same for NewClient. Certificate and key are left out where
// neither is set.
func InspectClient(files ClientFiles, keyPath string) []Inspection {
	found := []Inspection{inspectAuthorities(files.CA, keyPath+".ca", selfSignedToo)}
	if files.Certificate != "" || files.Key != "" {
		found = append(found, inspectPair(files.Certificate, files.Key, keyPath, forClient)...)
	}
	return found
}

// inspectPair holds what is wrong between the two files against the certificate, as
// loadPair does.
func inspectPair(certFile, keyFile, prefix string, use purpose) []Inspection {
	cert := Inspection{Key: prefix + ".certificate", File: certFile}
	key := Inspection{Key: prefix + ".key", File: keyFile}
	chain, err := loadChain(certFile, cert.Key, key.Key)
	cert.Certificates, cert.Err = chain, err
	signer, err := loadKey(keyFile, cert.Key, key.Key)
	key.Err = err
	if cert.Err == nil && key.Err == nil {
		cert.Err = checkPair(chain, signer, cert.Key, certFile, keyFile)
	}
	if cert.Err == nil {
		cert.Err = checkUsage(chain[0], cert.Key, certFile, use)
	}
	if cert.Err != nil {
		cert.Certificates = nil
	}
	return []Inspection{cert, key}
}

func inspectAuthorities(file, key string, pins pinning) Inspection {
	found := Inspection{Key: key, File: file}
	found.Certificates, found.Err = readAuthorities(file, key, pins)
	return found
}
