package transfer

import "github.com/hotledger/hotledger/e2e/model/explore"

// book is what is known of accounts by their events alone.
type book struct {
	balance, held [accountsMax]int8
	open          [idsMax]int8 // holds
	holder        [idsMax]uint8
	reversed      [2][idsMax]int8
}

// checkLog goes through one shard's events.
func (m *Model) checkLog(log []Event) explore.Violation {
	k := book{balance: m.plan.opening}
	for i, e := range log {
		if _, twice := m.find(log[:i], m.idOf(e.Record)); twice {
			return twoOutcomes
		}
		if e.reason != applied {
			continue
		}
		if v := m.checkEvent(&k, log[:i], e); v != "" {
			return v
		}
	}
	for i, e := range log {
		k := m.fold(log[:i])
		if m.decide(&k, log[:i], e.Record, e.at, e.forgotten) != e {
			return wrongDecision
		}
	}
	return ""
}

func (m *Model) checkEvent(k *book, past []Event, e Event) explore.Violation {
	asks := m.command(e.Record)
	change := e.held - k.held[e.account]
	k.held[e.account] = e.held
	k.balance[e.account] += e.delta
	ends := e.kind == asked && asks.verb == capture
	switch {
	case ends || e.kind == expired || (e.kind == asked && (asks.verb == hold || asks.verb == release)):
		h := m.holdOf(e.Record)
		if asks.verb == hold && e.kind == asked {
			k.holder[h] = e.account
		}
		if k.open[h] += change; k.open[h] < 0 || k.open[h] != e.left || k.holder[h] != e.account || (ends && change != e.delta) {
			return overused
		}
		if ends && e.at >= holdEnds {
			return lateCapture
		}
	case change != 0:
		return heldDiffers
	case e.kind == asked && asks.verb == reverse:
		o, found := m.original(past, asks)
		k.reversed[e.end()][asks.of] += e.delta
		if whole := -o.delta; !found || exceeds(k.reversed[e.end()][asks.of], whole) {
			return overreversed
		}
	}
	if sum := k.openHolds(e.account); sum != e.held {
		return heldDiffers
	}
	if k.balance[e.account] < k.held[e.account] {
		return belowFloor
	}
	return ""
}

// exceeds tells whether a part is more than the whole, of either sign.
func exceeds(part, whole int8) bool {
	if whole < 0 {
		part, whole = -part, -whole
	}
	return part < 0 || part > whole
}

func (k *book) openHolds(account uint8) int8 {
	sum := int8(0)
	for h, open := range k.open {
		if k.holder[h] == account {
			sum += open
		}
	}
	return sum
}
