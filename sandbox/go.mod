module github.com/hotledger/hotledger/sandbox

go 1.26.0
