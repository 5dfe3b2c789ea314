package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// loopPatience is how long the parts get to end when the gateway was found to be
// pointed at itself; it must be off within a second.
const loopPatience = 700 * time.Millisecond

// errForced is the end that a second signal asks for.
var errForced = errors.New("stopped by a second signal; answers under way are lost")

// serve runs the gateway until a signal or ctx ends it: then no new clients, answers
// under way are waited for as long as timeouts.drain, and nil. A *ConfigError is
// returned before anything was bound.
func serve(ctx context.Context, path string, env environment) error {
	unhardened := harden() // before the first secret is read
	defer tuneCollector(env.environ)()
	config, report := loadConfig(path, env.environ)
	var m material
	if !report.hopeless {
		m = readMaterial(config, report)
	}
	if err := report.err(path); err != nil {
		return err
	}
	log := newLogger(config.Log, env.stderr)
	warn(config, report, unhardened, log)

	p, err := build(config, m, log)
	if err != nil {
		report.addErrors(err)
		return report.err(path)
	}
	defer p.close()
	if err := p.listen(ctx); err != nil {
		return err
	}
	log.Info("serving", zap.String("version", version()), zap.String("config", path),
		zap.Stringer("listen", config.Listen.Address), zap.Stringer("admin", config.Admin.Address), zap.String("instance", config.Instance))
	r := running{tasks: p.tasks(), signals: env.signals, loops: p.loops.found, drain: config.Timeouts.Drain.span(), log: log}
	if err := r.wait(ctx); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// warn says what the operator should know before the first client comes.
func warn(c *Config, r *report, unhardened error, log *zap.Logger) {
	for _, warning := range r.warnings {
		log.Warn(warning)
	}
	if unhardened != nil {
		log.Warn("the process's memory is not kept from core files and debuggers", zap.Error(unhardened))
	}
	limit, err := descriptorLimit()
	switch {
	case err != nil:
		log.Warn("the limit of open files is not known", zap.Error(err))
	default:
		if warning := checkDescriptors(c.Limits.Sessions, len(c.Listen.Advertise.Nodes), limit); warning != "" {
			log.Warn(warning)
		}
	}
}

// running is the parts at work, and what can end them.
type running struct {
	tasks   []task
	signals <-chan os.Signal
	loops   <-chan error // the gateway was found to be pointed at itself
	drain   time.Duration
	log     *zap.Logger
}

// wait lets the tasks run until ctx ends, a signal or a loop comes, or one of them
// fails, and returns when all have ended. After a second signal, or when a loop was
// found and they do not end in loopPatience, it leaves them behind: the process is
// about to exit.
func (r running) wait(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- supervise(ctx, r.tasks...) }()

	var (
		loop     error
		overtime <-chan time.Time
		stopping bool
	)
	for {
		select {
		case err := <-done:
			return errors.Join(loop, err)
		case s := <-r.signals:
			switch {
			case s == syscall.SIGHUP:
				r.log.Warn("SIGHUP is ignored: this version does not reload; restart to take changes up")
			case stopping:
				r.log.Error("stopping at once", zap.Stringer("signal", s))
				return errForced
			default:
				r.log.Info("stopping; a second signal ends at once", zap.Stringer("signal", s), zap.Duration("at_most", r.drain))
				stopping = true
				stop()
			}
		case loop = <-r.loops:
			r.log.Error("stopping: trying again cannot help", zap.Error(loop))
			stopping = true
			overtime = time.After(loopPatience)
			stop()
		case <-overtime:
			return loop
		}
	}
}
