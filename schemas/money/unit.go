// Package money reads and writes amounts: whole numbers of minor units, at most 18 digits, never a float.
package money

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// The limits of a custom unit.
const (
	CodeBytesMax = 16
	ExponentMax  = 18
)

// Unit is what an amount counts: a currency or custom unit, and how many decimals its major unit has. The zero Unit is not a unit.
type Unit struct {
	// Code is an ISO 4217 code ("USD") or a custom one ("POINTS"): 1 to 16 of A-Z, 0-9 and "_".
	Code string
	// Exponent is the number of decimals, 0 to 18: 2 says that 1250 is 12.50.
	Exponent int
}

// String returns the unit with its exponent, always: "USD/2". ParseUnit takes it back. "" for the zero Unit.
func (u Unit) String() string {
	if u.Code == "" {
		return ""
	}
	return u.Code + "/" + strconv.Itoa(u.Exponent)
}

//go:embed iso4217.txt
var iso4217 string

// noMinorUnit stands for ISO's "N.A.": gold, special drawing rights, testing.
const noMinorUnit = -1

var isoExponents = parseISO4217(iso4217)

// ParseUnit reads an ISO 4217 code ("USD"), or a code with its exponent ("USD/2", "POINTS/0").
// An ISO code with another exponent than ISO's is refused. A code that ISO does not list, and one for which ISO
// names no minor unit (XAU, XDR), need the exponent.
func ParseUnit(s string) (Unit, error) {
	code, digits, withExponent := strings.Cut(s, "/")
	if err := checkCode(code); err != nil {
		return Unit{}, err
	}
	isoExponent, isISO := isoExponents[code]
	fixed := isISO && isoExponent != noMinorUnit
	if !withExponent {
		if fixed {
			return Unit{Code: code, Exponent: isoExponent}, nil
		}
		if isISO {
			return Unit{}, fmt.Errorf("unit %q: ISO 4217 names no minor unit for it, so give the number of decimals, as in %q", s, code+"/4")
		}
		return Unit{}, fmt.Errorf("unit %q: no active ISO 4217 code; a custom unit gives its number of decimals, as in %q", s, code+"/2")
	}
	exponent, err := parseExponent(digits)
	if err != nil {
		return Unit{}, fmt.Errorf("unit %q: %w", clip(s), err)
	}
	if fixed && exponent != isoExponent {
		return Unit{}, fmt.Errorf("unit %q: %s has %d decimals by ISO 4217; write %q", s, code, isoExponent, code)
	}
	return Unit{Code: code, Exponent: exponent}, nil
}

func checkCode(code string) error {
	if code == "" {
		return fmt.Errorf("unit without a code; write one such as %q or %q", "USD", "POINTS/0")
	}
	if len(code) > CodeBytesMax {
		return fmt.Errorf("unit %q: the code is longer than %d characters", clip(code), CodeBytesMax)
	}
	for i := range len(code) {
		if c := code[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return fmt.Errorf("unit %q: a code is written with A-Z, 0-9 and _ alone", code)
		}
	}
	return nil
}

func parseExponent(digits string) (int, error) {
	exponent, err := strconv.Atoi(digits)
	if err != nil || exponent < 0 || exponent > ExponentMax || strconv.Itoa(exponent) != digits {
		return 0, fmt.Errorf("the exponent is a number from 0 to %d", ExponentMax)
	}
	return exponent, nil
}

// parseISO4217 reads the embedded table; a malformed line is a defect of the build, so it panics.
func parseISO4217(table string) map[string]int {
	exponents := make(map[string]int)
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3 || len(fields[0]) != 3 {
			panic("iso4217.txt: malformed line " + strconv.Quote(line))
		}
		exponent := noMinorUnit
		if fields[2] != "-" {
			var err error
			if exponent, err = parseExponent(fields[2]); err != nil {
				panic("iso4217.txt: " + err.Error())
			}
		}
		if _, twice := exponents[fields[0]]; twice {
			panic("iso4217.txt: twice " + fields[0])
		}
		exponents[fields[0]] = exponent
	}
	return exponents
}

// clip keeps an error readable when the input is huge.
func clip(s string) string {
	const shown = 40
	if len(s) <= shown {
		return s
	}
	return s[:shown] + "..."
}
