module github.com/hotledger/hotledger/e2e

go 1.26.0

require (
	github.com/hotledger/hotledger/schemas v0.0.0
	github.com/hotledger/hotledger/lua v0.0.0
	github.com/hotledger/hotledger/chassis v0.0.0
	github.com/hotledger/hotledger/producer v0.0.0
	github.com/hotledger/hotledger/ledger-writer v0.0.0
	github.com/hotledger/hotledger/projector v0.0.0
	github.com/hotledger/hotledger/reconciler v0.0.0
	github.com/hotledger/hotledger/sandbox v0.0.0
)

replace (
	github.com/hotledger/hotledger/schemas => ../schemas
	github.com/hotledger/hotledger/lua => ../lua
	github.com/hotledger/hotledger/chassis => ../chassis
	github.com/hotledger/hotledger/producer => ../producer
	github.com/hotledger/hotledger/ledger-writer => ../ledger-writer
	github.com/hotledger/hotledger/projector => ../projector
	github.com/hotledger/hotledger/reconciler => ../reconciler
	github.com/hotledger/hotledger/sandbox => ../sandbox
)
