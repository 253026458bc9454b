package reconciler

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"time"

	"github.com/hotledger/hotledger/schemas/money"
	"go.yaml.in/yaml/v3"
)

//go:embed policy.yaml
var builtInPolicy []byte

// anyCurrency is an allowance for every currency that has none of its own.
const anyCurrency = "*"

// Policy says what happens without a person, and when a break is how severe. Its text is versioned and recorded with each run.
type Policy struct {
	Version   string      `yaml:"version"`
	Automatic []Allowance `yaml:"automatic"`
	Severity  struct {
		// Amounts, by currency code: major units from which a break is medium, high, critical.
		Amounts map[string][]string `yaml:"amounts"`
		// Ages from which a break is medium, high, critical.
		Ages []time.Duration `yaml:"ages"`
	} `yaml:"severity"`
	ProjectionLag  time.Duration `yaml:"projection_lag"`
	TransitAge     time.Duration `yaml:"transit_age"`
	HoldAge        time.Duration `yaml:"hold_age"`
	HoldOverdue    time.Duration `yaml:"hold_overdue"`
	ApprovalExpiry time.Duration `yaml:"approval_expiry"`

	hash string
}

// Allowance lets the breaks of a class in a currency be repaired automatically, up to its caps. Empty caps do not limit.
type Allowance struct {
	Class    Class  `yaml:"class"`
	Currency string `yaml:"currency"`  // a code, or "*"
	PerBreak string `yaml:"per_break"` // major units
	PerRun   string `yaml:"per_run"`   // major units, all breaks of the allowance in a run together
	Count    int    `yaml:"count"`     // breaks of the allowance in a run
}

// LoadPolicy reads a policy file; an empty name is the built-in policy. The error names everything that is wrong with it.
func LoadPolicy(file string) (*Policy, error) {
	text := builtInPolicy
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil { //nolint:gosec // the operator names the file
			return nil, fmt.Errorf("read policy: %w", err)
		}
	}
	p := &Policy{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(p); err != nil {
		return nil, fmt.Errorf("policy %s: %w", file, err)
	}
	sum := sha256.Sum256(text)
	p.hash = hex.EncodeToString(sum[:])
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("policy %s: %w", file, err)
	}
	return p, nil
}

func (p *Policy) validate() error {
	var problems []error
	if p.Version == "" {
		problems = append(problems, errors.New("version: is missing"))
	}
	for i, a := range p.Automatic {
		if !a.Class.inRedis() && !a.Class.inProjection() {
			problems = append(problems, fmt.Errorf("automatic[%d]: class %q is never repaired automatically", i, a.Class))
		}
		if a.Currency == "" || a.Count <= 0 {
			problems = append(problems, fmt.Errorf("automatic[%d]: currency and a count above 0 are needed", i))
		}
		for _, amount := range []string{a.PerBreak, a.PerRun} {
			if amount != "" && a.Currency == anyCurrency {
				problems = append(problems, fmt.Errorf("automatic[%d]: an amount needs a currency of its own", i))
			} else if _, err := capOf(amount, a.Currency); err != nil {
				problems = append(problems, fmt.Errorf("automatic[%d]: %w", i, err))
			}
		}
	}
	for currency, bands := range p.Severity.Amounts {
		for _, amount := range bands {
			if _, err := capOf(amount, currency); err != nil {
				problems = append(problems, fmt.Errorf("severity.amounts: %w", err))
			}
		}
		if len(bands) != len(severities)-1 {
			problems = append(problems, fmt.Errorf("severity.amounts: %s needs %d amounts", currency, len(severities)-1))
		}
	}
	if n := len(p.Severity.Ages); n != 0 && n != len(severities)-1 {
		problems = append(problems, fmt.Errorf("severity.ages: %d are needed, or none", len(severities)-1))
	}
	for name, d := range map[string]time.Duration{"projection_lag": p.ProjectionLag, "transit_age": p.TransitAge, "hold_age": p.HoldAge,
		"hold_overdue": p.HoldOverdue, "approval_expiry": p.ApprovalExpiry} {
		if d <= 0 {
			problems = append(problems, fmt.Errorf("%s: is missing or not positive", name))
		}
	}
	return errors.Join(problems...)
}

// capOf is an amount of the policy in minor units; nil for none.
func capOf(amount, currency string) (*big.Int, error) {
	if amount == "" {
		return nil, nil //nolint:nilnil // no cap is a valid choice
	}
	unit, err := money.ParseUnit(currency)
	if err != nil {
		return nil, err
	}
	minor, err := money.ParseMajor(amount, unit)
	if err != nil {
		return nil, err
	}
	return big.NewInt(minor), nil
}

// code is the currency of a unit, "USD" of "USD/2".
func code(unitText string) string {
	unit, err := money.ParseUnit(unitText)
	if err != nil {
		return unitText
	}
	return unit.Code
}

// allowance is the one for a break: its currency's own, else that of any currency; nil for none.
func (p *Policy) allowance(b *Break) *Allowance {
	for _, currency := range []string{code(b.Unit), anyCurrency} {
		if i := slices.IndexFunc(p.Automatic, func(a Allowance) bool { return a.Class == b.Class && a.Currency == currency }); i >= 0 {
			return &p.Automatic[i]
		}
	}
	return nil
}

// over says which cap the breaks exceed together; "" where none. Breaks that two people approved count for nothing.
func (p *Policy) over(breaks []*Break, approved map[string]decision) string {
	type spent struct {
		count  int
		amount *big.Int
	}
	spendings := map[*Allowance]*spent{}
	for _, b := range breaks {
		a := p.allowance(b)
		if _, ok := approved[b.ID]; ok {
			continue
		}
		if a == nil {
			return fmt.Sprintf("policy %s does not allow %s in %s without two people", p.Version, b.Class, code(b.Unit))
		}
		s := spendings[a]
		if s == nil {
			s = &spent{amount: new(big.Int)}
			spendings[a] = s
		}
		s.count++
		if b.Amount != nil {
			s.amount.Add(s.amount, new(big.Int).Abs(b.Amount))
			if most, err := capOf(a.PerBreak, a.Currency); err == nil && most != nil && b.Amount.CmpAbs(most) > 0 {
				return fmt.Sprintf("a %s of %s %s is above the %s per break of policy %s", b.Class, major(b.Amount, b.Unit), a.Currency, a.PerBreak, p.Version)
			}
		}
		if s.count > a.Count {
			return fmt.Sprintf("there are more %s than the %d of policy %s", b.Class, a.Count, p.Version)
		}
		if most, err := capOf(a.PerRun, a.Currency); err == nil && most != nil && s.amount.Cmp(most) > 0 {
			return fmt.Sprintf("the %s in %s together are above the %s per run of policy %s", b.Class, a.Currency, a.PerRun, p.Version)
		}
	}
	return ""
}

// severity is the worst of class, amount and age.
func (p *Policy) severity(b *Break, now time.Time) Severity {
	worst := natureOf(b.Class).floor
	if b.Amount != nil {
		currency := code(b.Unit)
		for i, amount := range p.Severity.Amounts[currency] {
			if from, err := capOf(amount, currency); err == nil && b.Amount.CmpAbs(from) >= 0 {
				worst = worse(worst, severities[i+1])
			}
		}
	}
	for i, age := range p.Severity.Ages {
		if !b.FirstSeen.IsZero() && now.Sub(b.FirstSeen) >= age {
			worst = worse(worst, severities[i+1])
		}
	}
	return worst
}
