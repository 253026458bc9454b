package reconciler

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/producer"
	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/limits"
	"github.com/hotledger/hotledger/schemas/money"
	"github.com/hotledger/hotledger/schemas/reason"
	"github.com/hotledger/hotledger/schemas/topics"
	"go.uber.org/zap"
)

// State is how far a compensation came.
type State string

// The states.
const (
	// WouldIssue: a dry run.
	WouldIssue State = "would_issue"
	// Issued: on its way.
	Issued State = "issued"
	// Applied: Redis matches the log again.
	Applied State = "applied"
	// Rejected: the account changed since it was seen, or the shard was recovered. The next run sees what is left.
	Rejected State = "rejected"
	// Unknown: no outcome in time. The next run sees whether it was applied, and the same id cannot be applied twice.
	Unknown State = "unknown"
	// NotSent: certainly not sent.
	NotSent State = "not_sent"
)

// Compensation is the command that was issued for a break, or the rows that were written again.
type Compensation struct {
	CommandID string
	Operation string // repair, reproject, adjust or reverse
	State     State
	// Reason is the code of a rejection, or why the outcome is unknown.
	Reason string
	// Position of its event in the log of the break's shard; 0 while unknown.
	Position uint64

	command *ledgerv1.Command
}

// actionFor decides whether a break of an account in Redis may be repaired.
func (r *reconciliation) actionFor(b *Break) Action {
	if action := natureOf(b.Class).action; action != Repair {
		return action // the log does not say what should be, or the ledger-writer heals it
	}
	switch {
	case r.doubts[b.Shard].inDoubt(), r.trouble[b.Shard] != nil, !b.complete, b.Log == nil:
		b.Detail += "; not repaired, because the log of its shard is in doubt"
		return Stop
	case !b.Log.Balance.IsInt64() || b.Log.Balance.CmpAbs(big.NewInt(money.Max)) > 0:
		b.Detail += "; not repaired, because the log's balance is beyond 18 digits"
		return Stop
	case topics.ShardOf(b.Account, len(r.scans)) != b.Shard:
		b.Detail += "; not repaired, because the account belongs to another shard"
		return Stop
	}
	return Repair
}

// settle issues what the policy allows, and what two people approved.
func (r *reconciliation) settle(ctx context.Context) error {
	var chosen, booking []*Break
	for _, b := range r.report.Breaks {
		switch {
		case b.Settled != "" || b.Compensation != nil:
		case b.Action == Repair && b.Class.inRedis() && b.Account != "":
			if !r.agreed(b) && r.policy.allowance(b) == nil {
				b.Detail += "; policy " + r.policy.Version + " wants two people to approve its repair"
				continue
			}
			chosen = append(chosen, b)
		case r.agreed(b) && (b.Action == Reversal || b.Action == Adjustment || b.Action == Release):
			booking = append(booking, b)
		}
	}
	if held := r.heldBack(chosen); held != "" {
		r.hold(held)
	}
	if r.report.Held != "" { // what two people approved is issued all the same: that is how single breaks are let through
		chosen = slices.DeleteFunc(chosen, func(b *Break) bool { return !r.agreed(b) })
	}
	for _, b := range chosen {
		if err := r.prepare(ctx, b); err != nil {
			return err
		}
	}
	for _, b := range booking {
		if err := r.prepareBooking(ctx, b); err != nil {
			return err
		}
	}
	chosen = append(chosen, booking...)
	if len(chosen) == 0 || r.cfg.DryRun {
		return nil
	}
	if err := r.writeListed(ctx); err != nil {
		return err
	}
	if err := r.writeCompensations(ctx, chosen); err != nil {
		return err
	}
	return r.issue(ctx, chosen)
}

// agreed says that two people approved what is done about a break.
func (r *reconciliation) agreed(b *Break) bool {
	_, ok := r.approved[b.ID]
	return ok
}

// heldBack says why none of the automatic repairs is issued: too much is broken at once to be anything but one cause. "" where nothing is.
func (r *reconciliation) heldBack(chosen []*Break) string {
	automatic := 0
	for _, b := range chosen {
		if !r.agreed(b) {
			automatic++
		}
	}
	switch {
	case automatic == 0:
		return ""
	case r.report.BreaksFound+r.report.SettledBefore > uint64(len(r.report.Breaks)):
		return fmt.Sprintf("%d breaks are more than RECONCILER_BREAKS_MAX = %d", r.report.BreaksFound, r.cfg.BreaksMax)
	case automatic > r.cfg.RepairsMax:
		return fmt.Sprintf("%d repairs are more than RECONCILER_REPAIRS_MAX = %d", automatic, r.cfg.RepairsMax)
	}
	return r.policy.over(chosen, r.approved)
}

// hold notes why nothing more is applied, once, and raises the one alarm.
func (r *reconciliation) hold(why string) {
	if r.report.Held != "" {
		return
	}
	r.report.Held = "nothing was repaired: " + why + "; look for one cause first"
	if slices.ContainsFunc(r.report.Breaks, func(b *Break) bool { return b.Compensation != nil && b.Compensation.State == Applied }) {
		// Rows of ClickHouse come first, or the accounts could not be compared with the log.
		r.report.Held = "no account was repaired: " + why + "; look for one cause first"
	}
	r.logger.Error("the circuit breaker is open", zap.String("why", r.report.Held))
}

// prepareBooking makes the command of what two people approved: an adjustment, one posting between the account and @adjustments, or the release
// of a hold. It names the break as its reference, and its id is derived from the break, so it is booked once, whoever runs, however often.
func (r *reconciliation) prepareBooking(ctx context.Context, b *Break) error {
	d := r.approved[b.ID]
	past, err := r.history(ctx, b)
	if err != nil {
		return err
	}
	id := past.next(adjustmentPrefix + b.ID)
	command := &ledgerv1.Command{
		CommandId: id, Account: d.Account, Reference: b.ID, Description: "settles " + string(b.Class),
		Metadata: map[string]string{"break_id": b.ID, "approved_by": d.By},
	}
	operation := map[Action]string{Adjustment: "adjust", Reversal: "reverse", Release: "release"}[b.Action]
	if b.Action == Release {
		command.Operation, command.HoldId = ledgerv1.Operation_OPERATION_RELEASE, b.hold
	} else {
		unit, err := money.ParseUnit(d.Unit)
		if err != nil {
			return fmt.Errorf("approved adjustment of break %s: unit %q: %w", b.ID, d.Unit, err)
		}
		command.Operation, command.Amount, command.Currency, command.CounterAccount = ledgerv1.Operation_OPERATION_ADJUST, d.Amount, currencyOf(unit), b.Class.otherSide()
	}
	b.Compensation = &Compensation{CommandID: id, Operation: operation, State: WouldIssue, command: command}
	if _, err := limits.Command(command); err != nil {
		b.Compensation = nil
		b.Detail += "; not booked: " + err.Error()
	}
	return nil
}

// otherSide is the counter account of an adjustment that settles a break of the class.
func (c Class) otherSide() string {
	if c == TransitStale {
		return limits.Transit
	}
	return limits.Adjustments
}

// currencyOf is how a command spells a unit.
func currencyOf(unit money.Unit) string {
	if plain, err := money.ParseUnit(unit.Code); err == nil && plain == unit {
		return unit.Code
	}
	return unit.String()
}

// prepare makes the command of a break.
//
// Two runs that see the same fault must send the same id with the same payload, or the second would be a COMMAND_ID_REUSED. The id is
// derived from the break (break.go). The payload is a function of the same evidence: the run's id is in it, and the break's, but
// lua.FingerprintOf leaves these two out, as evidence that does not change the effect. For a repair by difference, what was seen is
// restated at the anchor, where every run says the same: only the difference counts, and it is the same at any sequence. Either the
// amounts are corrected or the terms, never both: terms may be changed between two runs, and the id of a correction of amounts must not
// hang on them.
//
// A repair that was rejected changed nothing, and its id keeps that outcome for ever. So a rejected id is followed by a number.
func (r *reconciliation) prepare(ctx context.Context, b *Break) error {
	past, err := r.history(ctx, b)
	if err != nil {
		return err
	}
	seen, log := b.Redis, b.Log
	if b.relative() {
		there := past.anchored
		off := there
		off.Balance = new(big.Int).Add(there.Balance, new(big.Int).Sub(seen.Balance, log.Balance))
		off.Held = new(big.Int).Add(there.Held, new(big.Int).Sub(seen.Held, log.Held))
		if b.Class == TermsDiffer {
			there, off.Terms = off, seen.Terms
			there.Terms = log.Terms
		}
		seen, log = &off, &there
	}
	id := past.next("repair:" + b.ID)
	command := &ledgerv1.Command{
		CommandId: id, Operation: ledgerv1.Operation_OPERATION_REPAIR, Account: b.Account,
		Repair: &ledgerv1.RepairTerms{Seen: accountSnapshot(seen), Log: accountSnapshot(log), Generation: b.generation, RunId: r.id, BreakId: b.ID},
	}
	b.Compensation = &Compensation{CommandID: id, Operation: "repair", State: WouldIssue, command: command}
	if _, err := limits.Command(command); err != nil {
		b.Action, b.Compensation = Stop, nil
		b.Detail += "; not repaired: " + err.Error()
	}
	return nil
}

// past is what the log says of an account that a command is made from.
type past struct {
	anchored Standing        // at the break's anchor
	rejected map[string]bool // ids of compensations
}

// next is the first id made of one that was not rejected.
func (p *past) next(first string) string {
	id := first
	for attempt := 2; p.rejected[id]; attempt++ {
		id = fmt.Sprintf("%s:%d", first, attempt)
	}
	return id
}

// history reads the account in the log at the anchor, and its compensations that were rejected.
func (r *reconciliation) history(ctx context.Context, b *Break) (*past, error) {
	p := &past{anchored: Standing{Sequence: b.anchor, Balance: new(big.Int), Held: new(big.Int)}, rejected: map[string]bool{}}
	var ids []string
	err := r.clickhouse.QueryRow(ctx, `SELECT sumIf(toInt128(delta), booked), argMinIf(toString(unit), sequence, booked),
			argMaxIf(concat(toString(floor_after), ifNull(concat(':', toString(ceiling_after)), '')), sequence, booked AND operation IN ('open', 'set_limits')),
			argMaxIf(toString(account_status), sequence, booked AND operation IN ('open', 'freeze', 'unfreeze', 'close')),
			groupUniqArrayIf(command_id, status = 'rejected' AND (startsWith(command_id, 'repair:') OR startsWith(command_id, @prefix))),
			(SELECT sum(toInt128(remaining)) FROM (SELECT argMax(hold_remaining, sequence) AS remaining FROM events
				WHERE account = @account AND shard = @shard AND hold_id != '' AND status = 'applied' AND sequence <= @anchor GROUP BY hold_id))
		FROM (SELECT *, status = 'applied' AND sequence <= @anchor AS booked FROM events WHERE account = @account AND shard = @shard LIMIT 1 BY sequence, position)`,
		clickhouse.Named("anchor", b.anchor), clickhouse.Named("account", b.Account), clickhouse.Named("shard", b.Shard), clickhouse.Named("prefix", adjustmentPrefix)).
		Scan(p.anchored.Balance, &p.anchored.Unit, &p.anchored.Limits, &p.anchored.Status, &ids, p.anchored.Held)
	if err != nil {
		return nil, fmt.Errorf("read history of account %q: %w", b.Account, err)
	}
	for _, id := range ids {
		p.rejected[id] = true
	}
	return p, nil
}

func accountSnapshot(s *Standing) *ledgerv1.AccountSnapshot {
	if s == nil {
		return nil
	}
	return &ledgerv1.AccountSnapshot{
		Sequence: s.Sequence, Balance: s.Balance.String(), Held: s.Held.String(), Floor: s.Floor(), Ceiling: s.Ceiling(), Unit: s.Unit, Status: s.Status,
	}
}

// issue sends the repairs and waits for their outcomes, all within OutcomeTimeout.
func (r *reconciliation) issue(ctx context.Context, repairable []*Break) error {
	waiting, cancel := context.WithTimeoutCause(ctx, r.cfg.OutcomeTimeout, producer.ErrOutcomeTimeout)
	defer cancel()
	client, err := producer.New(waiting, producer.Config{
		Kafka: r.cfg.Kafka, Source: "reconciler", OutcomeTimeout: r.cfg.OutcomeTimeout, InFlightMax: 2*repairsMax + 1,
	}, r.logger)
	if err != nil {
		return fmt.Errorf("issue repairs: %w", err)
	}
	defer client.Close()
	pending := make([]*producer.Pending, len(repairable))
	for i, b := range repairable {
		if b.Compensation == nil {
			continue
		}
		b.Compensation.State = Issued
		if pending[i], err = client.Send(waiting, b.Compensation.command); err != nil {
			b.Compensation.State, b.Compensation.Reason = NotSent, err.Error()
		}
	}
	for i, b := range repairable {
		if pending[i] == nil {
			continue
		}
		outcome, err := pending[i].Wait(waiting)
		b.Compensation.conclude(outcome, err)
	}
	ctx, stop := evidenceContext(ctx)
	defer stop()
	return r.writeCompensations(ctx, repairable)
}

func (c *Compensation) conclude(outcome *ledgerv1.Outcome, err error) {
	var unknown *producer.OutcomeUnknownError
	switch {
	case errors.As(err, &unknown):
		c.State, c.Reason = Unknown, unknown.Cause.Error()
	case err != nil:
		c.State, c.Reason = Unknown, err.Error()
	case outcome.GetStatus() == ledgerv1.Status_STATUS_APPLIED:
		c.State, c.Position = Applied, outcome.GetPosition()
	default:
		c.State, c.Position, c.Reason = Rejected, outcome.GetPosition(), reason.Of(outcome.GetReason()).Code
	}
}

// evidenceTimeout lets a run that was told to stop still say so.
const evidenceTimeout = 10 * time.Second

func evidenceContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), evidenceTimeout)
}
