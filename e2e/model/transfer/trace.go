package transfer

import (
	"fmt"
	"strings"
)

func (m *Model) idText(id uint8) string { return string(rune('S' + id)) }

func accountText(account uint8) string { return string(rune('a' + account)) }

// recordText is a command, such as "T transfer a 1 to b", or "@credit/T b 1".
func (m *Model) recordText(r Record) string {
	asks := m.command(r)
	id := m.idText(asks.id)
	if r.salt > 0 {
		id += "~" + digit(r.salt)
	}
	switch r.kind {
	case credited:
		return fmt.Sprintf("@credit/%s %s %d from %s", id, accountText(r.account), r.amount, accountText(asks.account))
	case returned:
		return strings.TrimSpace(fmt.Sprintf("@return/%s %s %d %s", id, accountText(r.account), r.amount, reasonNames[r.why]))
	case expired:
		return fmt.Sprintf("@expire/%s %s", id, accountText(r.account))
	default:
	}
	text := fmt.Sprintf("%s %s %s", id, verbNames[asks.verb], accountText(asks.account))
	if asks.verb == capture || asks.verb == release || asks.verb == reverse {
		text += " of " + m.idText(asks.of)
	}
	if asks.amount > 0 {
		text += fmt.Sprintf(" %d", asks.amount)
	}
	if asks.verb == transfer {
		text += " to " + accountText(asks.to)
	}
	return text
}

func (m *Model) eventText(e Event) string {
	text := m.recordText(e.Record) + ": " + reasonNames[e.reason]
	if e.delta != 0 {
		text += fmt.Sprintf(" %+d", e.delta)
	}
	return text
}

// Parts are the lines of a trace.
func (m *Model) Parts(s *State) []string {
	var lines []string
	for i := range s.shards {
		sh := &s.shards[i]
		var commands, events []string
		for _, r := range sh.queue[:sh.queued] {
			commands = append(commands, m.recordText(r))
		}
		for _, e := range sh.past() {
			events = append(events, m.eventText(e))
		}
		lines = append(lines,
			fmt.Sprintf("commands %d [%s]", i, strings.Join(commands, "; ")),
			fmt.Sprintf("log %d      [%s]", i, strings.Join(events, "; ")),
			fmt.Sprintf("redis %d    %s", i, m.redisText(i, &sh.redis)))
	}
	var told []string
	for n, reason := range s.told {
		if reason != none {
			told = append(told, m.recordText(m.request(s, uint8(n), first))+": "+reasonNames[reason])
		}
	}
	return append(lines, fmt.Sprintf("told       [%s]", strings.Join(told, "; ")), fmt.Sprintf("clock      %d", s.now))
}

func (m *Model) redisText(i int, r *Redis) string {
	if r.lost {
		return "empty"
	}
	text := fmt.Sprintf("at %d", r.n)
	if r.extra != (Event{}) {
		text += " and one in the outbox"
	}
	for account := range uint8(accountsMax) {
		if int(shardOf[account]) == i {
			text += fmt.Sprintf(", %s %d", accountText(account), r.balance[account])
			if r.held[account] != 0 {
				text += fmt.Sprintf(" (%d held)", r.held[account])
			}
		}
	}
	for h, left := range r.left {
		if left > 0 {
			text += fmt.Sprintf(", hold %s %d", m.idText(uint8(h)), left)
		}
	}
	return text
}
