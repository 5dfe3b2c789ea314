package admin

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"
)

// ProblemCode is the kind of a Problem; scripts may rely on it.
type ProblemCode string

// The codes.
const (
	ProblemNotProtected ProblemCode = "not_protected"  // the address is not loopback, and has no TLS with operators
	ProblemCertificate  ProblemCode = "no_certificate" // none was shown
	ProblemNotAllowed   ProblemCode = "not_allowed"    // one was, but not of somebody in admin.allow
	ProblemNotLocal     ProblemCode = "not_local"      // asked for by another name than loopback's, or from elsewhere
	ProblemBrowser      ProblemCode = "browser"        // a browser's request, or one without the header
	ProblemMethod       ProblemCode = "method"
	ProblemMedia        ProblemCode = "content_type"
	ProblemTooLarge     ProblemCode = "too_large"
	ProblemBadRequest   ProblemCode = "bad_request"
	ProblemBusy         ProblemCode = "busy"          // too many such requests at a time
	ProblemUnknownOwner ProblemCode = "unknown_owner" // neither token nor session
	ProblemKafka        ProblemCode = "kafka_refused" // the token is still good, and no session was ended
	ProblemTimeout      ProblemCode = "timeout"       // what became of it is not known
	ProblemStopping     ProblemCode = "stopping"
)

func (c ProblemCode) status() int {
	switch c {
	case ProblemNotProtected, ProblemUnknownOwner:
		return http.StatusNotFound
	case ProblemCertificate, ProblemNotAllowed, ProblemNotLocal, ProblemBrowser:
		return http.StatusForbidden
	case ProblemMethod:
		return http.StatusMethodNotAllowed
	case ProblemMedia:
		return http.StatusUnsupportedMediaType
	case ProblemTooLarge:
		return http.StatusRequestEntityTooLarge
	case ProblemBadRequest:
		return http.StatusBadRequest
	case ProblemBusy, ProblemStopping:
		return http.StatusServiceUnavailable
	case ProblemKafka:
		return http.StatusBadGateway
	case ProblemTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// Problem is why a request about tokens came to nothing.
type Problem struct {
	Code ProblemCode `json:"code"`
	Text string      `json:"text"`
	Cure string      `json:"cure,omitempty"` // what to change or to do
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Cure == "" {
		return p.Text
	}
	return p.Text + "; " + p.Cure
}

// Failed is the JSON document of an answer that is not 200.
type Failed struct {
	Problem *Problem `json:"error"`
}

// asProblem makes one of whatever Tokens.Expire returned.
func asProblem(err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Code: ProblemTimeout, Text: err.Error()}
	case errors.Is(err, context.Canceled):
		return &Problem{Code: ProblemStopping, Text: "the gateway stops"}
	}
	return &Problem{Code: ProblemKafka, Text: err.Error()}
}

func (s *Server) answerProblem(w http.ResponseWriter, p *Problem) {
	if p.Code == ProblemBusy {
		w.Header().Set("Retry-After", "1")
	}
	s.answer(w, p.Code.status(), Failed{p})
}

// refuse answers a request that is not carried out. What anybody on the network can
// send must not fill the log.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, who string, p *Problem) {
	log := s.config.Logger.Warn
	if p.Code == ProblemNotProtected || p.Code == ProblemCertificate {
		log = s.config.Logger.Debug
	}
	log("a request about tokens was refused",
		zap.String("problem", string(p.Code)), zap.String("by", who), zap.String("from", r.RemoteAddr), zap.Error(p))
	s.answerProblem(w, p)
}
