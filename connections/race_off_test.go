//go:build !race

package connections

const raceSlack = 0
