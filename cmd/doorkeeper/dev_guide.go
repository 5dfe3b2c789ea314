package main

import (
	"errors"
	"fmt"
	"strings"

	"doorkeeper/internal/shell"
)

// writeGuide writes settings files for alice and bob, and shows commands that can be
// pasted as they are.
func writeGuide(out terminal, dir devDirectory, bootstrap string) error {
	var errs []error
	for _, name := range []string{"alice", "bob"} {
		errs = append(errs,
			dir.write(name+".properties", javaSettings(dir, bootstrap, name)),
			dir.write(name+".conf", librdkafkaSettings(dir, bootstrap, name)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var b strings.Builder
	section := func(title, text string) {
		fmt.Fprintf(&b, "\n%s\n\n%s", out.title(title), text)
	}
	section("Java", fmt.Sprintf(`echo hello | kafka-console-producer.sh --bootstrap-server %[1]s --topic %[2]s --producer.config %[3]s
kafka-console-consumer.sh --bootstrap-server %[1]s --topic %[2]s --group alice-java --from-beginning --max-messages 1 --consumer.config %[3]s
`, bootstrap, devTopic, shell.Quote(dir.file("alice.properties"))))
	section("kcat", fmt.Sprintf(`echo hello | kcat -F %[2]s -P -t %[1]s
kcat -F %[2]s -C -t %[1]s -e
`, devTopic, shell.Quote(dir.file("alice.conf"))))
	section("librdkafka, here from Python (pip install confluent-kafka)", pythonConsumer(dir, bootstrap))
	section("Whose certificate is it, and where does it lead?", fmt.Sprintf(`doorkeeper whoami %[2]s --config %[1]s
kcat -F %[3]s -L
`, shell.Quote(dir.file(devConfigFile)), shell.Quote(dir.file("bob.crt")), shell.Quote(dir.file("bob.conf"))))
	where := "Certificates and settings are in " + dir.path
	if dir.temporary {
		where += ", until this ends"
	}
	fmt.Fprintf(&b, "\n%s\nThe gateway's log is %s. Stop with Ctrl-C.\n", where, dir.file(devLogFile))
	_, err := fmt.Fprint(out, b.String())
	return err
}

// javaSettings are a .properties file; in one a backslash would be an escape.
func javaSettings(dir devDirectory, bootstrap, name string) []byte {
	path := func(file string) string { return strings.ReplaceAll(dir.file(file), `\`, `\\`) }
	return fmt.Appendf(nil, `bootstrap.servers=%s
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location=%s
ssl.truststore.type=PEM
ssl.truststore.location=%s
`, bootstrap, path(name+".pem"), path("ca.pem"))
}

func librdkafkaSettings(dir devDirectory, bootstrap, name string) []byte {
	return fmt.Appendf(nil, `bootstrap.servers=%s
security.protocol=ssl
ssl.certificate.location=%s
ssl.key.location=%s
ssl.ca.location=%s
`, bootstrap, dir.file(name+".crt"), dir.file(name+".key"), dir.file("ca.pem"))
}

// pythonConsumer reads what is in the topic and ends when nothing more comes.
func pythonConsumer(dir devDirectory, bootstrap string) string {
	return fmt.Sprintf(`python3 - <<'END'
from confluent_kafka import Consumer
c = Consumer({
    'bootstrap.servers': %s,
    'security.protocol': 'ssl',
    'ssl.certificate.location': %s,
    'ssl.key.location': %s,
    'ssl.ca.location': %s,
    'group.id': 'alice-python',
    'auto.offset.reset': 'earliest',
})
c.subscribe([%s])
while (m := c.poll(5)) is not None:
    print(m.error() or m.value().decode())
c.close()
END
`, pythonQuote(bootstrap), pythonQuote(dir.file("alice.crt")), pythonQuote(dir.file("alice.key")), pythonQuote(dir.file("ca.pem")), pythonQuote(devTopic))
}

func pythonQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}
