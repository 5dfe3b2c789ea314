//go:build !race

package connections

const debug = false
