module github.com/hotledger/hotledger/reconciler

go 1.26.0

require (
	github.com/hotledger/hotledger/schemas v0.0.0
	github.com/hotledger/hotledger/lua v0.0.0
	github.com/hotledger/hotledger/chassis v0.0.0
	github.com/hotledger/hotledger/producer v0.0.0
)

replace (
	github.com/hotledger/hotledger/schemas => ../schemas
	github.com/hotledger/hotledger/lua => ../lua
	github.com/hotledger/hotledger/chassis => ../chassis
	github.com/hotledger/hotledger/producer => ../producer
)
