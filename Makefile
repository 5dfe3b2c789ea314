# Everything that is built, checked and measured here. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

# How brokers run, and which: docker:VERSION or processes:VERSION, one after the other.
KAFKA ?= docker:4.4.0 processes:3.9.1
# The first of them has all tests. The others have those that depend on what a broker
# knows (LATER=. for all; LATER_SKIP=^$$ too).
LATER ?= TestAcksZero|TestClients|TestConformance|TestContract|TestCoordinators|TestFeatures|TestGrants|TestHarness(Token|Java|Namespace|Raw)|TestIdentity(Is|Cannot)|TestJava|TestKcat|TestLeaks|TestLibrdkafka(Is|Acks|Administers|ReadsOn)|TestMainJob|TestOneToken|TestRenewalsBehind|TestTokensThat|TestTransactions|TestVersions
LATER_SKIP ?= TestClientsAreExact/.*/directly|TestJavaClientsOfTwoGenerations/3
# What has a target of its own and is no part of this (^$$ for nothing): loads, what waits for
# minutes, and a table of tools whose outputs come in their own time.
APART ?= TestSoak|TestRenewalsAtAnyMoment|TestNoClientNoticesRenewals/sessions|TestToolsDoAsDirectly|TestABrokerInTroubleAtAnyStepOfARenewal|TestMetricsAndLargeFrames|TestAProcessInTroubleAtAStepOfARenewal
# All that are supported, for integration-matrix.
MATRIX ?= processes:4.4.0 processes:4.2.0 processes:4.0.0 processes:3.9.1 processes:3.8.1
# Each fuzz target for so long, and so many of them at a time.
FUZZTIME ?= 5s
FUZZERS ?= 2
SOAKTIME ?= 10m
LIFETIME ?= 12m
# How long, how (connections.renewal) and over which ends (tokens, sessions, both) sessions
# are renewed, and how many renewals there are to be at chosen moments.
RENEWAL ?= 1h
KIND ?= reauthenticate
MODE ?= tokens
RENEWALS ?= 10000
TOOL := go tool -modfile=tools/go.mod
GOTEST := go test -race -json
NOSKIP := bin/noskip

.PHONY: tools trouble help build test prerequisites lint unit integration check conformance token-model fuzz bench soak slow renewal renewals govulncheck token-life integration-matrix

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/doorkeeper, static
	CGO_ENABLED=0 go build -trimpath -o bin/doorkeeper ./cmd/doorkeeper

test: prerequisites lint unit fuzz integration ## everything that CI runs; nothing is ever skipped

check: test ## the same

prerequisites: ## list what this machine lacks for `make test`
	@KAFKA='$(KAFKA)' .ci/prerequisites

lint: ## golangci-lint, which runs go vet's checks too
	$(TOOL) golangci-lint run
	cd integration/go && go vet ./...

unit: $(NOSKIP) ## all packages, without brokers
	$(GOTEST) -shuffle=on ./... | $(NOSKIP)
	go test -json -run Allocat ./gateway ./connections ./tokens | $(NOSKIP) # the race detector allocates for itself
	cd tools && go test ./...

integration: $(NOSKIP) ## the binary, real brokers, real clients (KAFKA='docker:4.4.0 processes:3.9.1')
	run=. skip='$(APART)'; for k in $(KAFKA); do echo "--- Kafka $${k#*:} ($${k%%:*})"; \
	  DOORKEEPER_ENGINE=$${k%%:*} DOORKEEPER_KAFKA_VERSION=$${k#*:} \
	  $(GOTEST) -count=1 -timeout 35m -tags integration -run "$$run" -skip "$$skip" ./integration | $(NOSKIP); \
	  run='$(LATER)' skip='$(LATER_SKIP)'; done

integration-matrix: ## the same on every Kafka that is supported (MATRIX); more than an hour
	$(MAKE) integration KAFKA='$(MATRIX)' LATER=. LATER_SKIP='^$$$$'

soak: $(NOSKIP) ## short-lived tokens under load for SOAKTIME
	DOORKEEPER_SOAK=$(SOAKTIME) $(GOTEST) -count=1 -timeout 3h -tags integration -run Soak ./integration/... | $(NOSKIP)

renewal: ## forty clients over renewals (RENEWAL=1h KIND=reauthenticate|swap MODE=tokens|sessions|both)
	DOORKEEPER_RENEWAL=$(RENEWAL) DOORKEEPER_RENEWAL_KIND=$(KIND) DOORKEEPER_RENEWAL_MODE=$(MODE) \
	  go test -race -v -count=1 -timeout 3h -tags integration -run 'TestNoClientNoticesRenewals$$' ./integration

renewals: ## RENEWALS renewals behind all that may be in flight (KIND=reauthenticate|swap)
	DOORKEEPER_RENEWALS=$(RENEWALS) DOORKEEPER_RENEWAL_KIND=$(KIND) \
	  go test -race -v -count=1 -timeout 3h -tags integration -run 'TestRenewalsAtAnyMoment$$' ./integration

trouble: $(NOSKIP) ## brokers killed, stopped and slow at each step of a re-authentication and a swap
	DOORKEEPER_TROUBLE=full $(GOTEST) -count=1 -timeout 30m -tags integration -run 'Test(ABroker|AProcess)InTroubleAtA.*StepOfARenewal' ./integration | $(NOSKIP)

tools: $(NOSKIP) ## Kafka's command-line tools, directly and through the gateway
	$(GOTEST) -count=1 -timeout 30m -tags integration -run TestToolsDoAsDirectly ./integration | $(NOSKIP)

slow: $(NOSKIP) ## 50 slow readers of answers of 100 MB while leaders move; 200 that pause
	DOORKEEPER_SLOW=full $(GOTEST) -count=1 -timeout 30m -tags integration -run 'SlowReaders|LargeFrames' ./integration/... | $(NOSKIP)

conformance: ## docs/conformance.md, of a 4.4.0 broker
	DOORKEEPER_KAFKA_VERSION=4.4.0 DOORKEEPER_CONFORMANCE_REPORT=$(CURDIR)/docs/conformance.md \
	  go test -count=1 -timeout 30m -tags integration -run 'TestConformance$$' ./integration

token-model: ## 100,000 random lives of tokens
	DOORKEEPER_TOKEN_SCHEDULES=100000 go test -count=1 -timeout 1h -run TestRandomSchedules ./tokens

token-life: $(NOSKIP) ## tokens under load for LIFETIME; two gateways, kills, lost controllers, in their long form
	DOORKEEPER_TOKEN_LIFE=$(LIFETIME) $(GOTEST) -count=1 -timeout 3h -tags integration -run TestTokenLife ./integration | $(NOSKIP)

fuzz: ## every fuzz target for FUZZTIME, FUZZERS at a time
	.ci/fuzz $(FUZZTIME) $(FUZZERS)

bench: ## direct TLS against through the gateway, then every benchmark
	go run ./integration/bench
	go run ./integration/bench -renewals
	go test -run '^$$' -bench . -benchmem ./...

govulncheck: ## known faults in what is used (needs the vulnerability database)
	$(TOOL) govulncheck ./...

$(NOSKIP): tools/noskip/main.go
	cd tools && go build -o ../$@ ./noskip
