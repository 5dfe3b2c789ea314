package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// task is a part of the gateway that runs until its context ends, and waits for
// what it started before it returns.
type task struct {
	name string
	run  func(context.Context) error
}

// supervise runs all tasks at once until ctx ends or one of them does. Then it stops
// them one after the other, in the order given: each is told to stop when the one
// before has returned, so that a task finds those it leans on alive to its end. It
// returns when the last has, with the first error. A task that returns before it is
// told to is an error.
func supervise(ctx context.Context, tasks ...task) error {
	group, over := errgroup.WithContext(ctx)
	stops := make([]func(), len(tasks))
	ended := make([]chan struct{}, len(tasks))
	for i, t := range tasks {
		// Not over's child: that would stop all at the same time.
		taskCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		stops[i], ended[i] = stop, make(chan struct{})
		group.Go(func() error {
			defer close(ended[i])
			err := t.run(taskCtx)
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", t.name, err)
			case taskCtx.Err() == nil:
				return fmt.Errorf("%s: ended by itself", t.name)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-over.Done()
		for i, stop := range stops {
			stop()
			<-ended[i]
		}
		return nil
	})
	return group.Wait()
}
