package money

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The range of every amount and balance, in minor units: at most 18 digits, so that it fits an int64 with room to add,
// and a script can compute it exactly in two limbs.
const (
	MaxDigits = 18
	Max       = 999_999_999_999_999_999
)

// ErrTooLarge is wrapped by the error for a well-formed number that has more than 18 digits in minor units.
var ErrTooLarge = errors.New("more than 18 digits in minor units")

// ParseMinor reads minor units: "0", or digits without a leading zero, with "-" before them where negative.
// Nothing else: no "+", blanks, point, separators, exponent, hex, other scripts' digits, "-0". The error wraps ErrTooLarge beyond Max.
func ParseMinor(s string) (int64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	if !isNumber(digits) || negative && digits == "0" {
		return 0, fmt.Errorf("amount %q: write minor units as digits alone, such as %q for 12.50", clip(s), "1250")
	}
	v, err := parseDigits(digits)
	if err != nil {
		return 0, fmt.Errorf("amount %q: %w", clip(s), err)
	}
	if negative {
		v = -v
	}
	return v, nil
}

// ParseMajor reads an amount as people write it, "12.50", and returns minor units: 1250 for a unit with two decimals.
// A point and fewer decimals than the unit has are fine ("12", "12.5"), more are not, not even zeros: nothing is ever rounded.
// Refused like in ParseMinor: "+5", " 5", "05", "5.", ".5", "1,000", "1e3", "0x10", "nan", "-0". The error wraps ErrTooLarge beyond Max.
func ParseMajor(s string, u Unit) (int64, error) {
	if u.Code == "" || u.Exponent < 0 || u.Exponent > ExponentMax {
		return 0, fmt.Errorf("amount %q: no unit to read it in", clip(s))
	}
	unsigned, negative := strings.CutPrefix(s, "-")
	whole, decimals, point := strings.Cut(unsigned, ".")
	if !isNumber(whole) || point && !allDigits(decimals) {
		return 0, fmt.Errorf("amount %q: write it as digits with a point before the decimals, such as %q", clip(s), FormatMajor(1250, u))
	}
	if len(decimals) > u.Exponent {
		return 0, fmt.Errorf("amount %q: %s has %d decimals, not %d; nothing is rounded", clip(s), u.Code, u.Exponent, len(decimals))
	}
	digits := strings.TrimLeft(whole+decimals+strings.Repeat("0", u.Exponent-len(decimals)), "0")
	v, err := parseDigits(digits)
	if err != nil {
		return 0, fmt.Errorf("amount %q: %w", clip(s), err)
	}
	if negative && v == 0 {
		return 0, fmt.Errorf("amount %q: zero has no sign", clip(s))
	}
	if negative {
		v = -v
	}
	return v, nil
}

// FormatMinor writes minor units as ParseMinor reads them.
func FormatMinor(v int64) string { return strconv.FormatInt(v, 10) }

// FormatMajor writes an amount as people read it, always with all decimals of the unit: 1250 of USD/2 is "12.50".
// It writes any int64; what is within Max, ParseMajor takes back.
func FormatMajor(v int64, u Unit) string {
	digits := strconv.FormatInt(v, 10)
	if u.Exponent <= 0 {
		return digits
	}
	digits, negative := strings.CutPrefix(digits, "-")
	if missing := u.Exponent + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - u.Exponent
	s := digits[:point] + "." + digits[point:]
	if negative {
		return "-" + s
	}
	return s
}

// isNumber tells whether s is "0", or digits without a leading zero.
func isNumber(s string) bool {
	return allDigits(s) && (s[0] != '0' || s == "0")
}

// allDigits tells whether s is one ASCII digit or more.
func allDigits(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// parseDigits reads digits without a leading zero; none at all are zero.
func parseDigits(digits string) (int64, error) {
	if len(digits) > MaxDigits {
		return 0, ErrTooLarge
	}
	var v int64
	for i := range len(digits) {
		v = v*10 + int64(digits[i]-'0')
	}
	return v, nil
}
