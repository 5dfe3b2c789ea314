package nodestatus

import "fmt"

// Refusal tells why a gateway whose kafka.addresses is list would not dial a broker at
// that address, as in Node.Refused; "" means that it would. The error says what is
// wrong with the list.
func Refusal(list []string, a Address) (string, error) {
	allow, err := parseAllowed(list)
	if err != nil {
		return "", fmt.Errorf("kafka.addresses: %w", err)
	}
	return allow.refuse(a), nil
}
