package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// RequestHeader has to be there, with any value, in every request about tokens. Pages
// of other sites cannot set it: a browser asks first (CORS), and is answered no.
const RequestHeader = "Doorkeeper-Request"

// onThisMachine is who asks without a certificate.
const onThisMachine = "(on this machine)"

// guarded lets those through who may ask about tokens, with their name, as many at a
// time as there are slots.
//
// On loopback that is every program of this machine, but no browser: a web page can
// make one send requests here, under a name of its own that points to loopback (DNS
// rebinding) or across sites. So the name that was asked for must be loopback's, what
// browsers add must not be there, and what they cannot add must. Elsewhere it is those
// whose certificate the operator has named.
func (s *Server) guarded(method string, slots chan struct{}, page func(w http.ResponseWriter, r *http.Request, who string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, problem := s.peer(r)
		if problem == nil {
			problem = plain(method, r)
		}
		if problem == nil {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				page(w, r, who)
				return
			default:
				problem = &Problem{Code: ProblemBusy, Text: "too many such requests are under way", Cure: "try again in a moment"}
			}
		}
		if problem.Code == ProblemMethod {
			w.Header().Set("Allow", method)
		}
		s.refuse(w, r, who, problem)
	}
}

// peer names who asks, or says why it may not.
func (s *Server) peer(r *http.Request) (string, *Problem) {
	if who := s.config.Tokens.Who; who != nil {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return "", &Problem{Code: ProblemCertificate, Text: "these pages are for those who show a certificate", Cure: "come with one of a name in admin.allow: --certificate and --key"}
		}
		name, err := who(*r.TLS)
		if err != nil {
			return name, &Problem{Code: ProblemNotAllowed, Text: err.Error()}
		}
		return name, nil
	}
	switch {
	case !s.loopback:
		return "", &Problem{
			Code: ProblemNotProtected, Text: "tokens are not shown here: the admin address is not loopback and knows no operators",
			Cure: "set admin.tls (certificate, key, client_ca) and admin.allow, or bind admin.address to 127.0.0.1",
		}
	case !isLoopback(hostOf(r.RemoteAddr)):
		// A machine that routes packets for loopback from outside.
		return "", &Problem{Code: ProblemNotLocal, Text: "this request comes from elsewhere"}
	case !isLoopback(hostOf(r.Host)) && !strings.EqualFold(hostOf(r.Host), hostOf(s.config.Address)):
		return "", &Problem{Code: ProblemNotLocal, Text: "this request is for another host", Cure: "ask for localhost, 127.0.0.1 or [::1]"}
	}
	return onThisMachine, nil
}

// plain refuses what is not a program's plain request of that method.
func plain(method string, r *http.Request) *Problem {
	if r.Method != method {
		return &Problem{Code: ProblemMethod, Text: "this page takes " + method + " alone"}
	}
	browser := r.Header.Get(RequestHeader) == "" || r.Header.Get("Origin") != ""
	for name := range r.Header {
		browser = browser || strings.HasPrefix(name, "Sec-Fetch-")
	}
	if browser {
		return &Problem{Code: ProblemBrowser, Text: "this page is not for browsers", Cure: "use doorkeeper tokens, or send the header " + RequestHeader + " and none that browsers add"}
	}
	return nil
}

// hostOf takes the port off, if there is one.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
