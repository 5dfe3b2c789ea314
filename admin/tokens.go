package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
)

// Bounds of the pages of tokens.
const (
	maxLists     = 2                // at a time
	maxExpiries  = 4                // at a time
	maxBody      = 8 << 10          // bytes: the longest name, with every byte escaped
	maxOwner     = 1024             // bytes of a name
	expireWithin = 30 * time.Second // an expiry, and the sessions' ends
)

// Tokens is what the pages of tokens show and do. List and Expire must be set.
type Tokens struct {
	Instance string // the gateway's name
	// Who names a peer by its verified certificate, or says why it may not use these
	// pages. nil: nobody is asked for a certificate, and they exist on loopback alone.
	Who func(tls.ConnectionState) (name string, err error)
	// List must not block, and hold nothing secret.
	List func() []Owner
	// Expire expires an owner's tokens and ends its sessions. It may wait until ctx ends.
	// An error that is, or wraps, a *Problem says what is answered.
	Expire func(ctx context.Context, owner string) (Expired, error)
}

// Owner is one principal that has tokens or sessions here.
type Owner struct {
	Name     string  `json:"owner"`                      // without "User:"
	Own      bool    `json:"own,omitempty"`              // the gateway's own principal
	State    string  `json:"state"`                      // of its token; absent: there is none
	Token    *Token  `json:"token,omitempty"`            // the one that is handed out
	Held     int     `json:"tokens"`                     // at Kafka, for this gateway: 2 during a replacement
	Sessions int     `json:"sessions"`                   // client connections
	Failure  string  `json:"failure,omitempty"`          // why the last creation failed, and what to change
	RetryIn  float64 `json:"retry_in_seconds,omitempty"` // until the next may be made
}

// Token is a delegation token without what is secret of it.
type Token struct {
	ID      string  `json:"id"` // the SCRAM user name
	Adopted bool    `json:"adopted,omitempty"`
	Age     float64 `json:"age_seconds"`
	Left    float64 `json:"left_seconds"` // by the gateway's count
	Ready   []int32 `json:"brokers_ready"`
}

// Listing is the answer to GET /tokens.
type Listing struct {
	Instance string  `json:"instance"`
	Owners   []Owner `json:"owners"`
}

// Expiry is the body of POST /tokens/expire.
type Expiry struct {
	Owner string `json:"owner"`
}

// Expired is the answer to it.
type Expired struct {
	Owner    string `json:"owner"`
	Token    bool   `json:"token_expired"`   // false: there was none
	Sessions int    `json:"sessions_ended"`  // by this call
	Ending   int    `json:"sessions_ending"` // had not ended when the time was over
}

// Paths of the pages of tokens.
const (
	PathTokens = "/tokens"
	PathExpire = "/tokens/expire"
)

func (s *Server) listTokens(w http.ResponseWriter, _ *http.Request, _ string) {
	owners := s.config.Tokens.List()
	if owners == nil {
		owners = []Owner{}
	}
	s.answer(w, http.StatusOK, Listing{Instance: s.config.Tokens.Instance, Owners: owners})
}

// expireToken goes on when the caller goes away: half of it done would leave the
// sessions of a token that is gone.
func (s *Server) expireToken(w http.ResponseWriter, r *http.Request, who string) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		s.refuse(w, r, who, &Problem{Code: ProblemMedia, Text: "the body must be application/json"})
		return
	}
	owner, problem := parseExpiry(http.MaxBytesReader(w, r.Body, maxBody))
	if problem != nil {
		s.refuse(w, r, who, problem)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.expireWithin + pageTimeout))
	ctx, cancel := context.WithTimeout(s.base, s.expireWithin)
	defer cancel()

	result, err := s.config.Tokens.Expire(ctx, owner)
	log := []zap.Field{zap.String("owner", owner), zap.String("by", who), zap.String("from", r.RemoteAddr)}
	if err != nil {
		problem := asProblem(err)
		s.config.Logger.Warn("an operator wanted an owner's token expired", append(log, zap.String("problem", string(problem.Code)), zap.Error(err))...)
		s.answerProblem(w, problem)
		return
	}
	result.Owner = owner
	s.config.Logger.Info("an operator had an owner's token expired",
		append(log, zap.Bool("token_expired", result.Token), zap.Int("sessions_ended", result.Sessions), zap.Int("sessions_ending", result.Ending))...)
	s.answer(w, http.StatusOK, result)
}

// parseExpiry reads the owner that is meant.
func parseExpiry(body io.Reader) (string, *Problem) {
	bad := func(text string) (string, *Problem) { return "", &Problem{Code: ProblemBadRequest, Text: text} }
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	var e Expiry
	var tooLarge *http.MaxBytesError
	switch err := d.Decode(&e); {
	case errors.As(err, &tooLarge):
		return "", &Problem{Code: ProblemTooLarge, Text: "the body is too large"}
	case err != nil:
		return bad(`the body must be {"owner": "NAME"}`)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad(`the body must be {"owner": "NAME"} and nothing else`)
	}
	switch {
	case e.Owner == "":
		return bad("the owner is empty")
	case len(e.Owner) > maxOwner:
		return bad("the owner is longer than any can be")
	case !utf8.ValidString(e.Owner):
		return bad("the owner is not UTF-8")
	case strings.HasPrefix(e.Owner, "User:"):
		return bad("write the owner's name alone, without User:")
	}
	return e.Owner, nil
}

// answer writes one JSON document.
func (s *Server) answer(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		s.config.Logger.Error("encode an answer", zap.Error(err))
		code = http.StatusInternalServerError
		b.Reset()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // a peer that has gone is its own matter
}
