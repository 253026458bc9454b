package export

import (
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hotledger/hotledger/schemas/money"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What beancount 2.3.5 takes (beancount/core/account.py and amount.py), ASCII alone; hledger takes more.
var (
	accountPattern   = regexp.MustCompile(`^(Assets|Equity)(:[A-Z0-9][A-Za-z0-9-]*)+$`)
	commodityPattern = regexp.MustCompile(`^[A-Z][A-Z0-9'._-]{0,22}[A-Z0-9]$`)
)

// accounts draws names with what is awkward in them more often than chance would.
var accounts = rapid.OneOf(
	rapid.StringMatching(`@?[AXax0: \-]{1,12}`),
	rapid.StringN(1, 40, 128),
).Filter(func(s string) bool { return s != "" && s != "@" })

func TestNamesAreTakenAndReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		account := accounts.Draw(t, "account")
		name := AccountName(account)
		if !accountPattern.MatchString(name) {
			t.Fatalf("%q is spelled %q", account, name)
		}
		if back, err := ParseAccountName(name); err != nil || back != account {
			t.Fatalf("%q is spelled %q, which is read as %q, %v", account, name, back, err)
		}
	})
}

// A balance in beancount is that of an account and all below it.
func TestNoNameLiesBelowAnother(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := accounts.Draw(t, "one"), accounts.Draw(t, "other")
		if rapid.Bool().Draw(t, "extended") {
			other = one + ":" + other
		}
		if strings.HasPrefix(AccountName(other), AccountName(one)+":") || (one != other && AccountName(one) == AccountName(other)) {
			t.Fatalf("%q and %q: %s, %s", one, other, AccountName(one), AccountName(other))
		}
	})
}

func TestNamesAsTheDocumentationSpellsThem(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]string{
		"alice": "Assets:Ledger:Xalice", "Assets:US:BofA": "Assets:Ledger:Assets-:US-:BofA", "till 1": "Assets:Ledger:Xtill-201", "@world": "Equity:World:Xworld",
		"@Expenses:Home:Rent": "Equity:World:Expenses-:Home-:Rent", "bank-01:EUR": "Assets:Ledger:Xbank--01-:EUR", "Xavier": "Assets:Ledger:XXavier", "a::b": "Assets:Ledger:Xa-:X-:Xb",
		"é": "Assets:Ledger:X-C3-A9",
	} {
		if got := AccountName(account); got != want {
			t.Errorf("%q is spelled %q, want %q", account, got, want)
		}
	}
	for _, name := range []string{
		"", "Assets:Ledger", "Assets:Ledger:alice", "Assets:Ledger:Xtill-2", "Assets:Ledger:Xtill-zz1", "Assets:Ledger:Xtill-c3", "Assets:Ledger:XAlice", "Assets:Ledger:A:B", "Income:World:X",
		"Assets:Ledger:X-40world", "Equity:Ledger:A",
	} {
		if account, err := ParseAccountName(name); err == nil {
			t.Errorf("%q is read as %q, want an error", name, account)
		}
	}
}

func TestCommoditiesAreTakenAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{"USD", "JPY", "KWD", "DEM/2", "POINTS/0", "POINTS/2", "A/2", "1A/2", "_A/2", "A_/0", "ABCDEFGHIJKLMNOP/18", "0123456789012345/18", "XAU/4"} {
		unit, err := money.ParseUnit(text)
		if err != nil {
			t.Fatal(err)
		}
		name := Commodity(unit)
		if !commodityPattern.MatchString(name) || seen[name] != "" {
			t.Errorf("%s is spelled %q, like %q", text, name, seen[name])
		}
		seen[name] = text
	}
	if seen["USD"] != "USD" || seen["POINTS-0"] != "POINTS/0" {
		t.Errorf("got %v", seen)
	}
}
