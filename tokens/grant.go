package tokens

import (
	"fmt"

	"doorkeeper/internal/shell"
)

// Grant is the right to make tokens for an owner: CREATE_TOKENS on a resource of the
// type USER (KIP-373). It is all that the gateway needs of Kafka.
type Grant struct {
	Bootstrap     string // host:port; it and CommandConfig as words of a shell
	CommandConfig string // the file of the administrator's own settings
	Gateway       string // the gateway's principal, without "User:"
	Owner         string // the same of the client; "" with Prefixed: everybody
	Prefixed      bool   // all owners whose names begin so
}

// Command is the command line that an administrator runs. Brokers hold the resource's
// name against the whole principal, so that a prefix begins with "User:"; everybody is
// the name * and no pattern.
func (g Grant) Command() string {
	resource := shell.Quoted("User:" + g.Owner)
	switch {
	case g.Prefixed && g.Owner == "":
		resource = shell.Quoted("*")
	case g.Prefixed:
		resource += " --resource-pattern-type prefixed"
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --command-config %s --add --allow-principal %s --operation CreateTokens --user-principal %s",
		g.Bootstrap, g.CommandConfig, shell.Quoted("User:"+g.Gateway), resource)
}
