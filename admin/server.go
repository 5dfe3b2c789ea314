package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Bounds of one admin connection. The pages are small and made at once, so a peer
// that needs longer is none that an operator would miss.
const (
	headerTimeout = 5 * time.Second
	pageTimeout   = 10 * time.Second
	idleTimeout   = time.Minute
	stopTimeout   = 2 * time.Second
	maxHeader     = 16 << 10 // bytes
	maxScrapes    = 4        // at a time
)

// Config is what the server shows and where.
type Config struct {
	Address string       // host:port
	TLS     *tls.Config  // nil: plain HTTP
	Tokens  *Tokens      // the pages of tokens; nil: there are none
	Metrics *Metrics     // for /metrics
	Ready   func() error // for /readyz; nil means ready. It must not block; errors.Join lists several reasons
	Status  func() any   // for /, encoded as JSON; nil shows nothing. It must not block, and hold nothing secret
	Logger  *zap.Logger
}

// Server serves the admin pages. Use it once: Listen, then Run, or Close.
type Server struct {
	config   Config
	http     *http.Server
	listener net.Listener
	loopback bool // it listens where this machine alone can reach it
	// Slots of the pages of tokens.
	lists, expiries chan struct{}
	// base outlives Run's context until what is under way has had its time. Set by Run.
	base         context.Context //nolint:containedctx // its life is Run's, which ends it
	expireWithin time.Duration
}

// New returns a server that is not bound yet.
func New(c Config) *Server {
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	s := &Server{config: c, lists: make(chan struct{}, maxLists), expiries: make(chan struct{}, maxExpiries), expireWithin: expireWithin}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Metrics.registry, promhttp.HandlerOpts{
		Registry:            c.Metrics.registry,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             pageTimeout / 2,
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            zap.NewStdLog(c.Logger),
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "live\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /{$}", s.status)
	if c.Tokens != nil {
		mux.HandleFunc(PathTokens, s.guarded(http.MethodGet, s.lists, s.listTokens))
		mux.HandleFunc(PathExpire, s.guarded(http.MethodPost, s.expiries, s.expireToken))
	}
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       pageTimeout,
		WriteTimeout:      pageTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          zap.NewStdLog(c.Logger),
	}
	return s
}

// Listen binds the address, at once or never: ctx bounds the name look-up.
func (s *Server) Listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.config.Address)
	if err != nil {
		return fmt.Errorf("bind the admin listener (admin.address): %w", err)
	}
	s.listener = l
	s.loopback = isLoopback(hostOf(l.Addr().String())) // what was bound, whatever its name
	return nil
}

// Addr returns where Listen bound, nil before.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Run serves until ctx ends, then lets pages under way finish for 2 s at most,
// and returns nil. It binds first unless Listen has. It returns an error when the
// listener fails. No request about tokens is under way when it has returned.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		if err := s.Listen(ctx); err != nil {
			return err
		}
	}
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	s.base = base
	defer func() {
		end()
		for _, slots := range []chan struct{}{s.lists, s.expiries} {
			for range cap(slots) { // whoever has one is waited for, and nobody gets one any more
				slots <- struct{}{}
			}
		}
	}()
	var listener net.Listener = newSlotted(s.listener, maxConnections)
	if s.config.TLS != nil {
		listener = tls.NewListener(listener, s.config.TLS)
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the admin pages: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		_ = s.http.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the admin pages: %w", err)
	}
	return nil
}

// Close releases the address of a server that Listen has bound and Run never
// served.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (s *Server) ready() error {
	if s.config.Ready == nil {
		return nil
	}
	return s.config.Ready()
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.ready(); err != nil {
		text(w, http.StatusServiceUnavailable, "not ready:\n"+err.Error()+"\n")
		return
	}
	text(w, http.StatusOK, "ready\n")
}

// status is for people: everything on one page, in plain text.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	page := "doorkeeper\n\nready: yes\n"
	if err := s.ready(); err != nil {
		page = "doorkeeper\n\nready: no\n" + err.Error() + "\n"
	}
	if s.config.Status != nil {
		state, err := json.MarshalIndent(s.config.Status(), "", "  ")
		if err != nil {
			s.config.Logger.Error("encode the status page", zap.Error(err))
			state = []byte("the status could not be encoded; the log says why")
		}
		page += "\n" + string(state) + "\n"
	}
	text(w, http.StatusOK, page+"\npages: /metrics /livez /readyz\n")
}

func text(w http.ResponseWriter, code int, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body) // a peer that has gone is its own matter
}
