#!/bin/sh
# Makes throw-away certificates and clients' settings in a directory, once: three
# authorities, so that nothing works by accident.
set -eu
umask 022 # brokers, gateway and clients are different users
mkdir -p "$1"
cd "$1"
if [ -e complete ]; then exit; fi

authority() { # name
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj "/CN=$1" \
		-addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign \
		-keyout "$1.key" -out "$1.pem" 2>/dev/null
}
certificate() { # file, authority, subject, further extension
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$3" -keyout "$1.key" -out "$1.csr" 2>/dev/null
	printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s\n' "$4" >"$1.ext"
	openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
	cat "$1.key" "$1.crt" >"$1.pem"
	rm "$1.csr" "$1.ext"
	chmod 644 "$1.key" "$1.pem"
}
settings() { # file, authority of the other side, bootstrap
	cat >"$1.properties" <<-END
		security.protocol=SSL
		ssl.keystore.type=PEM
		ssl.keystore.location=compose/made/$1.pem
		ssl.truststore.type=PEM
		ssl.truststore.location=compose/made/$2.pem
	END
	cat >"$1.librdkafka" <<-END
		bootstrap.servers=$3
		security.protocol=ssl
		ssl.certificate.location=compose/made/$1.crt
		ssl.key.location=compose/made/$1.key
		ssl.ca.location=compose/made/$2.pem
	END
}

authority broker-ca
authority client-ca
authority gateway-ca
for i in 1 2 3; do
	certificate "broker-$i" broker-ca /CN=broker "subjectAltName=DNS:broker-$i"
done
certificate gateway-control broker-ca /CN=gateway ""
certificate admin broker-ca /CN=admin ""
settings admin broker-ca broker-1:9093
certificate gateway gateway-ca /CN=localhost subjectAltName=DNS:localhost
for user in alice bob; do
	certificate "$user" client-ca "/O=Example/OU=apps/CN=$user" ""
	settings "$user" gateway-ca localhost:9092
done
openssl rand -hex 32 >token-secret # the same on all brokers
touch complete
