// Package data is real input with known answers; README.md says where it comes from.
package data

import (
	"embed"
	"encoding/csv"
	"fmt"
	"io"

	"github.com/hotledger/hotledger/producer/importer"
)

//go:embed *.csv
var files embed.FS

// Open opens one of the files.
func Open(name string) io.Reader {
	file, err := files.Open(name)
	if err != nil {
		panic(fmt.Sprintf("data: %v", err)) // embedded: only a typo gets here
	}
	return file
}

// Overdrafts are the floors that the real accounts need: a credit card is below zero, some of the bank accounts are overdrawn, and the household's
// file has its lines by kind and not by date, so that three years of rent come before most of the salary.
var Overdrafts = []importer.Overdraft{
	{Prefix: "Liabilities:", Floor: "-1000000.00"},
	{Prefix: "Assets:US:BofA:Checking", Floor: "-200000.00"},
	{Prefix: "bank-", Floor: "-100000000"},
}

// Units name the currencies of the files that ISO 4217 has withdrawn: one statement is in Deutsche Mark.
var Units = map[string]string{"DEM": "DEM/2"}

// Household is three years of one household's cash movements; its accounts are opened first.
func Household() importer.Rows {
	return importer.OpenAccounts(importer.ReadCommands(Open("household.csv"), importer.Options{File: "household.csv"}), Overdrafts)
}

// Statements are bank statements of 34 bank accounts, one of them in two currencies; their accounts are opened first.
func Statements() importer.Rows {
	options := importer.Options{File: "entries.csv", StatementsFile: "statements.csv", Units: Units}
	return importer.OpenAccounts(importer.ReadStatements(Open("statements.csv"), Open("entries.csv"), options), Overdrafts)
}

// Answer is what an account must stand at, in major units of a unit that the ledger knows, by somebody who never saw this ledger: hledger for the household, the banks
// themselves for the statements.
type Answer struct{ Account, Currency, Balance string }

// Answers are all known answers, in the order of the files.
func Answers() ([]Answer, error) {
	answers, at := []Answer{}, map[string]int{}
	for _, source := range []struct{ file, account, currency, balance string }{
		{"answers.csv", "account", "currency", "balance"},
		{"statements.csv", "account", "currency", "closing_balance"}, // the last statement of each account
	} {
		lines, err := csv.NewReader(Open(source.file)).ReadAll()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", source.file, err)
		}
		column := map[string]int{}
		for i, name := range lines[0] {
			column[name] = i
		}
		for _, line := range lines[1:] {
			a := Answer{line[column[source.account]], line[column[source.currency]], line[column[source.balance]]}
			if source.file == "statements.csv" {
				a.Account += ":" + a.Currency // an account of the ledger has one currency
			}
			if unit, ok := Units[a.Currency]; ok {
				a.Currency = unit
			}
			if i, ok := at[a.Account]; ok {
				answers[i] = a
				continue
			}
			at[a.Account] = len(answers)
			answers = append(answers, a)
		}
	}
	return answers, nil
}
