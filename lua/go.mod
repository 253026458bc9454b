module github.com/hotledger/hotledger/lua

go 1.26.0

require (
	github.com/hotledger/hotledger/schemas v0.0.0
)

replace (
	github.com/hotledger/hotledger/schemas => ../schemas
)
