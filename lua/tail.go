package lua

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
)

// The tail of an outcome record says what there is to know beyond the account. Its words are separated by tabs, which no id contains:
//
//	hold <id> <remaining> <expires ms or -> <counter account or nothing>   the hold as it stands now
//	reversed <command id> <total>                                         what was undone
//	from <account>                                                        who sent what arrived
//	to <account> | legs <account> <amount> <account> <amount>...          where the other side is booked, if not all of it with @world
const (
	holdWord     = "hold"
	reversedWord = "reversed"
	fromWord     = "from"
	toWord       = "to"
	legsWord     = "legs"
)

// appendTail renders the tail; the same as apply.lua.
func appendTail(b []byte, o *ledgerv1.Outcome) []byte {
	word := func(words ...string) {
		for _, w := range words {
			b = append(append(b, '\t'), w...)
		}
	}
	if h := o.GetHold(); h != nil {
		word(holdWord, h.GetHoldId(), h.GetRemaining(), millis(h.GetExpiresAt()), h.GetCounterAccount())
	}
	if r := o.GetReversal(); r != nil {
		word(reversedWord, r.GetCommandId(), r.GetTotal())
	}
	if from := o.GetTransferAccount(); from != "" {
		word(fromWord, from)
	}
	switch legs := o.GetLegs(); {
	case len(legs) == 1:
		word(toWord, legs[0].GetCounterAccount())
	case len(legs) > 1:
		word(legsWord)
		for _, leg := range legs {
			word(leg.GetCounterAccount(), leg.GetAmount())
		}
	}
	return b
}

// parseTail puts what a tail says into an outcome whose delta is set. It begins with a word, not with a tab.
func parseTail(o *ledgerv1.Outcome, tail string) error {
	rest := strings.Split(tail, "\t")
	take := func(n int) ([]string, bool) {
		if len(rest) < n {
			return nil, false
		}
		words := rest[:n]
		rest = rest[n:]
		return words, true
	}
	for len(rest) > 0 {
		var ok bool
		var w []string
		switch rest[0] {
		case holdWord:
			if w, ok = take(5); ok {
				expires, err := parseMillis(w[3])
				if err != nil {
					return err
				}
				o.Hold = &ledgerv1.HoldState{HoldId: w[1], Remaining: w[2], ExpiresAt: expires, CounterAccount: w[4]}
			}
		case reversedWord:
			if w, ok = take(3); ok {
				o.Reversal = &ledgerv1.Reversal{CommandId: w[1], Total: w[2]}
			}
		case fromWord:
			if w, ok = take(2); ok {
				o.TransferAccount = w[1]
			}
		case toWord:
			if w, ok = take(2); ok {
				o.Legs = []*ledgerv1.Leg{{CounterAccount: w[1], Amount: strings.TrimPrefix(o.GetDelta(), "-")}}
			}
		case legsWord:
			w, ok = take(len(rest))
			if ok = ok && len(w)%2 == 1 && len(w) > 3; ok {
				for i := 1; i < len(w); i += 2 {
					o.Legs = append(o.Legs, &ledgerv1.Leg{CounterAccount: w[i], Amount: w[i+1]})
				}
			}
		}
		if !ok {
			return fmt.Errorf("tail %q is not one of apply.lua", tail)
		}
	}
	if string(appendTail(nil, o)) != "\t"+tail { // a word twice, or in another order
		return fmt.Errorf("tail %q is not one of apply.lua", tail)
	}
	return nil
}

// booking is the tail that a command asks for: its other side.
func booking(c *ledgerv1.Command) string {
	from := ""
	if c.GetOperation() == ledgerv1.Operation_OPERATION_CREDIT {
		from = c.GetOrigin().GetAccount()
	}
	if len(c.GetLegs()) > 0 {
		return string(appendTail(nil, &ledgerv1.Outcome{TransferAccount: from, Legs: c.GetLegs()}))
	}
	counter := counterAccount(c)
	switch {
	case counter == "":
		return ""
	case from != "":
		return "\t" + fromWord + "\t" + from + "\t" + toWord + "\t" + counter
	}
	return "\t" + toWord + "\t" + counter
}

// counterAccount is where the other side of a command goes; "" for @world, and in a capture for what the hold says.
func counterAccount(c *ledgerv1.Command) string {
	counter := c.GetCounterAccount()
	switch c.GetOperation() {
	case ledgerv1.Operation_OPERATION_TRANSFER:
		if !limits.External(counter) {
			return limits.Transit
		}
	case ledgerv1.Operation_OPERATION_ADJUST:
		if counter == "" {
			return limits.Adjustments
		}
	case ledgerv1.Operation_OPERATION_CAPTURE:
		return counter // @world said aloud is not what the hold says
	default:
	}
	if counter == limits.World {
		return ""
	}
	return counter
}

const never = "-"

func millis(t *timestamppb.Timestamp) string {
	if t == nil {
		return never
	}
	return strconv.FormatInt(t.AsTime().UnixMilli(), 10)
}

func parseMillis(text string) (*timestamppb.Timestamp, error) {
	if text == never {
		return nil, nil //nolint:nilnil // unset is a value of its own
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errors.Join(errors.New("time of a hold"), err)
	}
	return timestamppb.New(time.UnixMilli(ms)), nil
}
