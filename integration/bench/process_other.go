//go:build !linux

package main

import "syscall"

func bound() *syscall.SysProcAttr { return nil }
