package nodestatus

import "testing"

func TestRefusalIsWhatTheTableSays(t *testing.T) {
	list := []string{"10.0.0.0/8", "broker-*.kafka.internal"}
	for host, refused := range map[string]bool{"10.1.2.3": false, "broker-1.kafka.internal": false, "192.0.2.1": true, "elsewhere": true, "": true} {
		why, err := Refusal(list, Address{Host: host, Port: 9094})
		if err != nil || (why != "") != refused {
			t.Errorf("%q: %q, %v", host, why, err)
		}
		allow, err := parseAllowed(list)
		if err != nil || why != allow.refuse(Address{Host: host, Port: 9094}) {
			t.Errorf("%q: the table says otherwise, %v", host, err)
		}
	}
	if _, err := Refusal([]string{"10.0.0.0/33"}, Address{Host: "x", Port: 1}); err == nil {
		t.Error("a list that is wrong is taken")
	}
}
