package model

import (
	"fmt"
	"strings"
)

func digit(n int) string { return string(rune('0' + n)) }

var scriptNames = [...]string{"", "apply", "trim", "replay", "begin build", "load build", "add to build", "swap", "put accounts", "put outcomes", "put head"}

// Parts are the lines of a trace.
func (m *Model) Parts(s *State) []string {
	other := 1 - s.main
	return []string{
		"redis      " + m.redisText(&s.servers[s.main]),
		"old redis  " + m.redisText(&s.servers[other]),
		"build      " + fmt.Sprint(s.servers[s.main].build.exists, " ", m.historyText(s.servers[s.main].build.head)),
		"log        " + m.logText(s),
		"told       " + m.eventsText(s.told[:]),
		fmt.Sprintf("offset     %d", s.offset),
	}
}

func (m *Model) redisText(r *Store) string {
	if r.keys == 0 {
		return "empty"
	}
	text := fmt.Sprintf("%s balance %d remembers %s", m.historyText(r.head), r.balance, m.eventsText(r.recent[:]))
	if m.Forgets {
		w := r.window
		text += fmt.Sprintf(" and %s, turned at %d, horizon %d, forgotten up to %d", m.eventsText(r.old[:]), w.turned, w.horizon, w.forgotten.position())
	}
	text += " outbox"
	for _, e := range r.outbox.all() {
		text += fmt.Sprintf(" (%s -> %s)", m.historyText(e.before), m.historyText(e.after))
	}
	if r.condition() != Whole {
		text += " BROKEN"
	}
	return text
}

func (m *Model) logText(s *State) string {
	var records []string
	for _, r := range s.log.all() {
		text := m.historyText(r.at)
		if r.txn != 0 {
			text += [...]string{"", " open", " committing", " aborting"}[s.txns[r.txn-1].status]
		}
		records = append(records, text)
	}
	return strings.Join(records, ", ")
}

// historyText is a head: its position and the events that its chain covers, such as 2:[A applied@0, B insufficient@1].
func (m *Model) historyText(h History) string {
	var events []Event
	for i := range h.position() {
		events = append(events, h.event(i))
	}
	return fmt.Sprintf("%d:%s", h.position(), m.eventsText(events))
}

func (m *Model) eventsText(events []Event) string {
	var texts []string
	for _, e := range events {
		if e != 0 {
			word := [...]string{"applied", "insufficient", "expired", "?"}[e.outcome()]
			texts = append(texts, fmt.Sprintf("%c %s@%d", 'A'+e.id(), word, e>>5))
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
