# Everything on a fresh machine: `make demo` and `make test`. Both install what they need, and say so.
# Needs Go, npm and apt (redis-server, valkey, hledger, beancount, java, maven); the ClickHouse engine comes from npm, Apache Kafka from Maven, tools and
# libraries from Go modules.

export HOTLEDGER_CACHE ?= $(HOME)/.cache/hotledger
TOOLS := $(HOTLEDGER_CACHE)/tools

BUF           := $(TOOLS)/buf@v1.75.0/buf
PROTOC_GEN_GO := $(TOOLS)/protoc-gen-go@v1.36.12/protoc-gen-go
PROTOC_GEN_VT := $(TOOLS)/protoc-gen-go-vtproto@v0.6.0/protoc-gen-go-vtproto
GOLANGCI      := $(TOOLS)/golangci-lint@v2.15.0/golangci-lint
GOTESTSUM     := $(TOOLS)/gotestsum@v1.13.0/gotestsum

# REDIS=valkey runs any target on Valkey instead of Redis.
VALKEY := $(HOTLEDGER_CACHE)/valkey/valkey-server
ifeq ($(REDIS),valkey)
export SANDBOX_REDIS_BIN := $(VALKEY)
endif

MODULES := schemas lua chassis producer ledger-writer projector reconciler sandbox e2e
SERVICES := producer ledger-writer projector reconciler

.PHONY: help demo test books model chaos kafka kafka-jars test-kafka test-valkey valkey sabotage bench bench-quick postgres lint generate breaking build engines clean

help: ## say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: engines ## the whole ledger on real input, broken on purpose and repaired (KEEP=1 leaves the engines running)
	@cd e2e && go run ./cmd/demo $(if $(KEEP),--keep)

test: engines kafka-jars $(GOTESTSUM) ## all tests, on real engines, with the race detector
	@scripts/install-engines.sh hledger bean-check:beancount promtool:prometheus
	$(GOTESTSUM) --format pkgname --format-hide-empty-pkg -- -race -timeout 20m work

books: engines ## real and random input through the ledger, judged by hledger and bean-check: books agree (SEED=1, DIR= keeps the exports)
	@scripts/install-engines.sh hledger bean-check:beancount
	@cd e2e && go run ./cmd/books $(if $(SEED),--seed $(SEED)) $(if $(DIR),--dir $(abspath $(DIR)))

kafka: kafka-jars ## one broker of the real Apache Kafka on port 9092 until Ctrl-C; point the services at it with KAFKA_BROKERS
	@cd sandbox && go run ./cmd/sandbox-apache-kafka -port 9092

test-kafka: engines kafka-jars $(GOTESTSUM) ## the end-to-end tests, each on an Apache Kafka of its own
	@scripts/install-engines.sh hledger bean-check:beancount
	cd e2e && LEDGER_TEST_KAFKA=apache $(GOTESTSUM) --format testname -- -race -timeout 40m .

test-valkey: engines valkey $(GOTESTSUM) ## the tests of what runs inside Redis and of what depends on it most, on Valkey (make test REDIS=valkey: all)
	SANDBOX_REDIS_BIN=$(VALKEY) $(GOTESTSUM) --format pkgname --format-hide-empty-pkg -- -timeout 20m ./lua/... ./chassis/redis/... ./ledger-writer/...

bench: engines kafka-jars postgres ## every figure, about fifteen minutes: name value unit ratio reference
	@cd e2e && go run ./cmd/bench

model: ## the protocol of one shard and of transfers between two, state by state
	@cd e2e && go run ./cmd/model && go run ./cmd/model --forget --faults clock=2,skew=1,jump=1,wipe=1
	@cd e2e && go run ./cmd/model transfers --liveness --faults 3 && go run ./cmd/model transfers --liveness --sequences 3 --faults 1

SEEDS ?= 10
chaos: engines $(if $(filter apache,$(KAFKA)),kafka-jars) ## seeded faults against whole ledgers (SEEDS=10, KAFKA=apache for the real broker): seeds N violations 0
	@scripts/install-engines.sh hledger bean-check:beancount
	@cd e2e && go run ./cmd/chaos --seeds $(SEEDS) $(if $(KAFKA),--kafka $(KAFKA))

sabotage: engines ## break the ledger in every way, under load: damaged N found N settled N false 0 (SOAK=1h: break nothing, for so long)
	@cd e2e && go run ./cmd/sabotage $(if $(SOAK),--soak $(SOAK))

bench-quick: engines postgres ## the same figures with short runs
	@cd e2e && go run ./cmd/bench --quick

build: ## the services, into bin/
	@for s in $(SERVICES); do (cd $$s && go build -trimpath -o ../bin/ ./cmd/...) || exit 1; done

lint: $(GOLANGCI) $(BUF) breaking ## golangci-lint over every module, buf lint, breaking-change check
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI) run --config ../.golangci.yml ./...) || exit 1; done
	@cd schemas && $(BUF) lint

breaking: $(BUF)
	@cd schemas && $(BUF) breaking --against baseline.binpb

generate: $(BUF) $(PROTOC_GEN_GO) $(PROTOC_GEN_VT) ## Go code and the breaking-change baseline from the Protobuf schemas
	@cd schemas && $(BUF) lint && $(BUF) breaking --against baseline.binpb \
	  && PATH="$(dir $(PROTOC_GEN_GO)):$(dir $(PROTOC_GEN_VT)):$$PATH" $(BUF) generate && $(BUF) build --exclude-source-info -o baseline.binpb

postgres: # a reference of the benchmarks
	@scripts/install-engines.sh pg_ctlcluster:postgresql

kafka-jars: # and java
	@scripts/install-kafka.sh

engines: $(if $(filter valkey,$(REDIS)),valkey)
	@scripts/install-engines.sh

valkey:
	@scripts/install-valkey.sh

clean: ## what the build made; the cache of engines and tools stays
	@rm -rf bin

$(BUF):           ; $(call install,github.com/bufbuild/buf/cmd/buf@v1.75.0)
$(PROTOC_GEN_GO): ; $(call install,google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12)
$(PROTOC_GEN_VT): ; $(call install,github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@v0.6.0)
$(GOLANGCI):      ; $(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0)
$(GOTESTSUM):     ; $(call install,gotest.tools/gotestsum@v1.13.0)

define install
@echo "installing $(1)" && GOBIN="$(@D)" go install $(1)
endef
