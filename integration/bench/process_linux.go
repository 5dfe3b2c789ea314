package main

import "syscall"

// bound has a child end with the thread that starts it, whatever ends that.
func bound() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
