package export

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
)

// An account of the ledger may have any name; hledger and beancount want components of letters, digits and "-", divided by ":", each
// beginning with a capital letter or a digit, below one of five roots. So a name is spelled, one to one:
//
//	alice                   Assets:Ledger:Xalice
//	Assets:US:BofA          Assets:Ledger:Assets-:US-:BofA
//	till 1                  Assets:Ledger:Xtill-201
//	@Expenses:Home:Rent     Equity:World:Expenses-:Home-:Rent
//
// A component gets an "X" in front unless it begins with a capital letter (but X) or a digit; "-" becomes "--", any other byte than a
// letter or digit "-" and two hexadecimal digits. A component that others follow ends with a "-", so that no account lies below
// another one: a balance in beancount is that of an account and all that are below it.
const (
	controlledRoot = "Assets:Ledger:"
	externalRoot   = "Equity:World:"
)

// AccountName spells the name of an account of the ledger for hledger and beancount.
func AccountName(account string) string {
	var text strings.Builder
	if name, external := strings.CutPrefix(account, "@"); external {
		text.WriteString(externalRoot)
		account = name
	} else {
		text.WriteString(controlledRoot)
	}
	components := strings.Split(account, ":")
	for i, component := range components {
		if i > 0 {
			text.WriteString("-:")
		}
		if component == "" || !isCapital(component[0]) && !isDigit(component[0]) || component[0] == 'X' {
			text.WriteByte('X')
		}
		for _, c := range []byte(component) {
			switch {
			case isCapital(c), isDigit(c), 'a' <= c && c <= 'z':
				text.WriteByte(c)
			case c == '-':
				text.WriteString("--")
			default:
				fmt.Fprintf(&text, "-%02X", c)
			}
		}
	}
	return text.String()
}

// ParseAccountName is the way back.
func ParseAccountName(name string) (account string, err error) {
	rest, external := strings.CutPrefix(name, externalRoot)
	if !external {
		var controlled bool
		if rest, controlled = strings.CutPrefix(name, controlledRoot); !controlled {
			return "", fmt.Errorf("account name %q: neither below %s nor below %s", name, controlledRoot, externalRoot)
		}
	}
	components := strings.Split(rest, ":")
	for i, component := range components {
		if i < len(components)-1 {
			var marked bool
			if component, marked = strings.CutSuffix(component, "-"); !marked {
				return "", fmt.Errorf("account name %q: component %d does not end with a hyphen, though others follow", name, i+1)
			}
		}
		if components[i], err = unspell(strings.TrimPrefix(component, "X")); err != nil {
			return "", fmt.Errorf("account name %q: %w", name, err)
		}
	}
	account = strings.Join(components, ":")
	if external {
		account = "@" + account
	}
	if limits.External(account) != external || AccountName(account) != name {
		return "", fmt.Errorf("account name %q: not the spelling of an account", name)
	}
	return account, nil
}

var errSpelling = errors.New("a hyphen is followed by a hyphen or two hexadecimal digits")

func unspell(component string) (string, error) {
	var text strings.Builder
	for i := 0; i < len(component); i++ {
		if component[i] != '-' {
			text.WriteByte(component[i])
			continue
		}
		switch rest := component[i+1:]; {
		case strings.HasPrefix(rest, "-"):
			text.WriteByte('-')
			i++
		case len(rest) < 2:
			return "", errSpelling
		default:
			c, err := hex.DecodeString(rest[:2])
			if err != nil {
				return "", errSpelling
			}
			text.Write(c)
			i += 2
		}
	}
	return text.String(), nil
}

func isCapital(c byte) bool { return 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Commodity spells a unit: a currency of ISO 4217 by its code alone, any other unit with its exponent, for one code may have several.
// One that does not begin with a letter gets an "X-" in front: codes of the ledger have no hyphen.
func Commodity(u money.Unit) string {
	if iso, err := money.ParseUnit(u.Code); err == nil && iso == u {
		return u.Code
	}
	name := fmt.Sprintf("%s-%d", u.Code, u.Exponent)
	if !isCapital(name[0]) {
		name = "X-" + name
	}
	return name
}

// plain replaces what ends a line, or is no text at all, by blanks.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, text)
}
