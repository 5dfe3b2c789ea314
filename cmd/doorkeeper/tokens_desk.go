package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"doorkeeper/admin"
	"doorkeeper/tlsconf"
)

// maxAnswer bounds what is read of an answer, in bytes: 300 for each of 200,000 owners.
const maxAnswer = 64 << 20

// tokensDesk is the admin address of a gateway that runs.
type tokensDesk struct {
	base string // https://host:port
	tls  *tls.Config
}

// desk finds the gateway that the flags mean. What is wrong is the caller's to mend.
func (f tokensFlags) desk(environ []string) (*tokensDesk, error) {
	if f.Config == "" && f.Admin == "" {
		return nil, errors.New("which gateway? name its configuration file with --config, or its admin address with --admin")
	}
	d := &tokensDesk{}
	var err error
	if f.Config != "" {
		if d.base, err = deskOfFile(f.Config, environ); err != nil {
			return nil, err
		}
	}
	if f.Admin != "" {
		if d.base, err = deskOfFlag(f.Admin, f.CA != "", strings.HasPrefix(d.base, "https:")); err != nil {
			return nil, err
		}
	}
	secure := strings.HasPrefix(d.base, "https:")
	switch {
	case !secure && (f.CA != "" || f.Certificate != "" || f.Key != ""):
		return nil, fmt.Errorf("%s is without TLS, so --ca, --certificate and --key have no use", d.base)
	case secure && f.CA == "":
		return nil, fmt.Errorf("%s has TLS: name the authorities that issued its certificate with --ca; the system's are never used", d.base)
	case (f.Certificate == "") != (f.Key == ""):
		return nil, errors.New("--certificate and --key go together: name both files or none")
	case !secure:
		return d, nil
	}
	d.tls, err = tlsconf.NewClient(tlsconf.ClientFiles{CA: f.CA, Certificate: f.Certificate, Key: f.Key}, flagPrefix)
	return d, flagErrors(err)
}

// deskOfFile reads the admin address from a configuration of which nothing else need be
// right.
func deskOfFile(path string, environ []string) (string, error) {
	config, report := loadConfig(path, environ)
	var here []Problem
	for _, p := range report.problems {
		if p.Path == "" || p.Path == "admin" || strings.HasPrefix(p.Path, "admin.") {
			here = append(here, p)
		}
	}
	report.problems = here
	if err := report.err(path); err != nil {
		return "", err
	}
	a := config.Admin.Address
	if a.anyHost() { // it listens everywhere, so here too
		a.Host = "127.0.0.1"
	}
	scheme := "http"
	if config.Admin.TLS.on() {
		scheme = "https"
	}
	return scheme + "://" + a.String(), nil
}

// deskOfFlag reads --admin. Without a scheme it has TLS where the file says so, or
// where there are authorities to know it by.
func deskOfFlag(text string, authorities, file bool) (string, error) {
	scheme, address, found := strings.Cut(text, "://")
	if !found {
		scheme, address = "http", text
		if authorities || file {
			scheme = "https"
		}
	}
	if scheme != "http" && scheme != "https" {
		return "", fmt.Errorf("--admin: %s begins with neither http:// nor https://", quote(text))
	}
	var a Address
	if err := a.UnmarshalText([]byte(strings.TrimSuffix(address, "/"))); err != nil {
		return "", fmt.Errorf("--admin: %w", err)
	}
	if a.Host == "" {
		a.Host = "127.0.0.1"
	}
	return scheme + "://" + a.String(), nil
}

const flagPrefix = "--"

// flagErrors names flags where tlsconf names keys.
func flagErrors(err error) error {
	if err == nil {
		return nil
	}
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		var errs []error
		for _, e := range list.Unwrap() {
			errs = append(errs, flagErrors(e))
		}
		return errors.Join(errs...)
	}
	var wrong *tlsconf.ConfigError
	if errors.As(err, &wrong) {
		named := *wrong
		named.Key = flagPrefix + strings.TrimPrefix(named.Key, flagPrefix+".")
		return &named
	}
	return err
}

// ask sends one request and decodes the answer into document. An answer that is not
// 200 is an *admin.Problem.
func (d *tokensDesk) ask(ctx context.Context, method, path string, body []byte, document any) error {
	request, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set(admin.RequestHeader, "1")
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	// No proxy: the address is a machine's own, or an operator's network.
	transport := &http.Transport{TLSClientConfig: d.tls, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return d.unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s broke off its answer: %w", d.base, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%s answered with more than %d bytes", d.base, maxAnswer)
	}
	return d.decode(answer.StatusCode, text, document)
}

func (d *tokensDesk) decode(status int, text []byte, document any) error {
	if status == http.StatusOK {
		if err := json.Unmarshal(text, document); err != nil {
			return fmt.Errorf("%s answered with something else than a gateway does: %w", d.base, err)
		}
		return nil
	}
	var failed admin.Failed
	if json.Unmarshal(text, &failed) == nil && failed.Problem != nil {
		return failed.Problem
	}
	const shown = 200
	return fmt.Errorf("%s answered %d %s: %s; is that the admin address of a gateway of this version, and has it TLS (https://, --ca)?",
		d.base, status, http.StatusText(status), oneLine(string(text[:min(len(text), shown)])))
}

// unreachable says what kept a request from being answered.
func (d *tokensDesk) unreachable(err error) error {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err // without the path
	}
	var (
		record tls.RecordHeaderError
		alert  *net.OpError
		cure   string
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		cure = "nobody listens there: does the gateway run, and is that its admin.address?"
	case errors.As(err, &record):
		cure = "it does not speak TLS: use http://"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		cure = "--ca must hold the authority that issued admin.tls.certificate, and --admin name a host that is in it"
	case errors.As(err, &alert) && alert.Op == "remote error":
		cure = "it refused the certificate: admin.tls.client_ca must hold the authority that issued --certificate"
	case d.tls != nil && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		// Under TLS 1.3 a refusal comes when the request is out already, and may be lost.
		cure = "it may have refused the certificate: admin.tls.client_ca must hold the authority that issued --certificate"
	case errors.Is(err, context.DeadlineExceeded):
		cure = "there was no answer in time; whether it was done is not known"
	}
	if cure == "" {
		return fmt.Errorf("%s: %w", d.base, err)
	}
	return fmt.Errorf("%s: %w; %s", d.base, err, cure)
}
