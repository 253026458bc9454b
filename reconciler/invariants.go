package reconciler

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/hotledger/hotledger/schemas/limits"
)

//go:embed histories.sql
var historiesQuery string

// history is what an account's own events contradict each other in.
type history struct {
	Account, Unit string
	Shard         uint16
	LastRepair    uint64
	Broken        []uint64
	Overspent     []overspent
}

// overspent is a debit that took an account below its floor, and by how much, minor units.
type overspent struct {
	Sequence uint64
	By       string
}

// readHistories checks each account of a slice: balances that follow from each other, and no debit below the floor.
func (r *reconciliation) readHistories(ctx context.Context, s slice) ([]history, error) {
	rows, err := r.clickhouse.Query(ctx, `SELECT account, shard, in_unit, last_repair, broken, overspent.1, overspent.2
		FROM (`+historiesQuery+`)`, r.args(s, clickhouse.Named("most", r.cfg.BreaksMax+1))...)
	if err != nil {
		return nil, fmt.Errorf("check histories of accounts: %w", err)
	}
	var all []history
	err = scanAll(rows, func(scan func(...any) error) error {
		var h history
		var sequences []uint64
		var amounts []string
		if err := scan(&h.Account, &h.Shard, &h.Unit, &h.LastRepair, &h.Broken, &sequences, &amounts); err != nil {
			return err
		}
		for i := range sequences {
			h.Overspent = append(h.Overspent, overspent{sequences[i], amounts[i]})
		}
		all = append(all, h)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check histories of accounts: %w", err)
	}
	return all, nil
}

// linksMax bounds the breaks of one account's history.
const linksMax = 100

// breaks makes one break of each broken link, so that an incremental run, which sees fewer of them, gives each the id that a full one does;
// and one of each time that the account was overspent.
func (h history) breaks() []*Break {
	var all []*Break
	for _, sequence := range h.Broken[:min(len(h.Broken), linksMax)] {
		all = append(all, &Break{
			Class: BalanceChainBroken, Shard: int(h.Shard), Account: h.Account, Unit: h.Unit, Action: Stop,
			Detail:   fmt.Sprintf("balance_after at sequence %d does not follow from the balance before, and no repair came after it", sequence),
			evidence: []string{fmt.Sprint(sequence)}, after: sequence - 1, before: sequence,
		})
	}
	for _, o := range h.Overspent {
		short, ok := new(big.Int).SetString(o.By, 10)
		if !ok {
			short = new(big.Int) // ClickHouse wrote it
		}
		all = append(all, &Break{
			Class: FloorBroken, Shard: int(h.Shard), Account: h.Account, Unit: h.Unit, Amount: short, Action: Adjustment,
			Detail:   fmt.Sprintf("by the log, the debit at sequence %d took the account %s below its floor: Redis allowed money that was not there", o.Sequence, major(short, h.Unit)),
			evidence: []string{fmt.Sprint(o.Sequence), o.By}, after: o.Sequence, before: o.Sequence,
		})
	}
	return all
}

// checkInvariants checks what is true of the log as a whole.
func (r *reconciliation) checkInvariants(ctx context.Context) error {
	for _, check := range []func(context.Context) error{
		r.checkEffects, r.checkPostings, r.checkTransit, r.checkDeadLetters, r.checkLag,
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *reconciliation) add(b *Break) {
	r.report.Breaks = append(r.report.Breaks, b)
	r.report.BreaksFound++
}

// idsPerPass bounds the memory of looking for ids that took effect twice: each pass looks at the ids of one remainder of their hash.
const idsPerPass = 4_000_000

// checkEffects finds command ids that took effect twice. One request has one outcome, for ever, in all shards; two different requests
// under one id in two shards are the caller's mistake, and each is right by itself.
func (r *reconciliation) checkEffects(ctx context.Context) error {
	passes := r.report.Events/idsPerPass + 1
	for pass := range passes {
		rows, err := r.clickhouse.Query(ctx, `SELECT command_id, shard, account, toString(any(e.unit)) AS unit, toString(any(delta)),
				groupArray(position), any(sequence)
			FROM (SELECT * FROM events WHERE status = 'applied' AND position <= arrayElement(@ends, shard + 1) AND command_id IN (
				SELECT command_id FROM events WHERE status = 'applied' AND cityHash64(command_id) % @passes = @pass
					AND position <= arrayElement(@ends, shard + 1) AND (NOT @incremental OR command_id IN (
						SELECT command_id FROM events WHERE position > arrayElement(@cuts, shard + 1) AND position <= arrayElement(@ends, shard + 1)))
				GROUP BY command_id HAVING count() > 1)
				ORDER BY position LIMIT 1 BY shard, position) AS e
			GROUP BY command_id, fingerprint, shard, account HAVING count() > 1 ORDER BY shard, account LIMIT @most`,
			r.args(slice{}, clickhouse.Named("passes", passes), clickhouse.Named("pass", pass), clickhouse.Named("most", r.cfg.BreaksMax),
				clickhouse.Named("incremental", r.checkpoint != ""))...)
		if err != nil {
			return fmt.Errorf("look for double effects: %w", err)
		}
		err = scanAll(rows, func(scan func(...any) error) error {
			var id, account, unit, delta string
			var shard uint16
			var places []uint64
			var sequence uint64
			if err := scan(&id, &shard, &account, &unit, &delta, &places, &sequence); err != nil {
				return err
			}
			amount, _ := new(big.Int).SetString(delta, 10)
			amount.Mul(amount, big.NewInt(int64(len(places)-1))).Neg(amount) // what takes the other effects back
			r.add(&Break{
				Class: DuplicateEffect, Shard: int(shard), Account: account, Unit: unit, Amount: amount, Action: Reversal,
				Detail:   fmt.Sprintf("command %q took effect at positions %v: %d times instead of once", id, places, len(places)),
				evidence: []string{id, fmt.Sprint(places)}, From: slices.Min(places), To: slices.Max(places),
			})
			return nil
		})
		if err != nil {
			return fmt.Errorf("look for double effects: %w", err)
		}
	}
	return nil
}

// checkPostings adds up both sides of all postings, as finance sees them. A full run only: it reads everything.
func (r *reconciliation) checkPostings(ctx context.Context) error {
	if r.checkpoint != "" {
		return nil
	}
	rows, err := r.clickhouse.Query(ctx, "SELECT currency, toString(sum(amount_minor)) AS total FROM "+
		r.cfg.ClickHouse.FinanceDatabase+".postings GROUP BY currency HAVING sum(amount_minor) != 0")
	if err != nil {
		return fmt.Errorf("add up postings: %w", err)
	}
	err = scanAll(rows, func(scan func(...any) error) error {
		var currency, total string
		if err := scan(&currency, &total); err != nil {
			return err
		}
		amount, _ := new(big.Int).SetString(total, 10)
		r.add(&Break{
			Class: PostingsNotZero, Unit: unitOf(currency), Amount: amount, Action: Stop,
			Detail: fmt.Sprintf("all postings in %s add up to %s minor units instead of 0", currency, total), evidence: []string{currency, total},
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("add up postings: %w", err)
	}
	return nil
}

// checkTransit finds what left one account of a transfer and did not reach the other. The ledger-writer's own commands go by an id made of
// their origin's (limits.CreditID, limits.ReturnID, limits.UndoID), so what belongs together is what is left without the prefix. Adjustments are people's.
func (r *reconciliation) checkTransit(ctx context.Context) error {
	rows, err := r.clickhouse.Query(ctx, `SELECT replaceRegexpOne(command_id, '^@(credit/|return/|undo/[0-9a-f]{12}/)', '') AS transfer,
			toString(any(e.unit)) AS unit, toString(sum(-toInt128(delta))) AS left, max(log_time) AS since,
			if(sum(delta) < 0, anyIf(account, delta < 0), anyIf(account, delta > 0)), if(sum(delta) < 0, anyIf(shard, delta < 0), anyIf(shard, delta > 0))
		FROM (SELECT command_id, unit, delta, log_time, account, shard, position FROM events WHERE counter_account = @transit AND status = 'applied' AND operation != 'adjust' AND position <= arrayElement(@ends, shard + 1)
			LIMIT 1 BY shard, position) AS e
		GROUP BY transfer HAVING sum(toInt128(delta)) != 0 AND since < @before ORDER BY since LIMIT @most`,
		r.args(slice{}, clickhouse.Named("transit", limits.Transit), clickhouse.Named("most", r.cfg.BreaksMax),
			clickhouse.DateNamed("before", r.began.Add(-r.policy.TransitAge), clickhouse.MilliSeconds))...)
	if err != nil {
		return fmt.Errorf("look at money in transit: %w", err)
	}
	err = scanAll(rows, func(scan func(...any) error) error {
		var transfer, unit, left, account string
		var since time.Time
		var shard uint16
		if err := scan(&transfer, &unit, &left, &since, &account, &shard); err != nil {
			return err
		}
		amount, _ := new(big.Int).SetString(left, 10)
		r.add(&Break{
			Class: TransitStale, Shard: int(shard), Account: account, Unit: unit, Amount: amount, Action: Adjustment, FirstSeen: since,
			Detail:   fmt.Sprintf("%s of transfer %q are in transit since %s", major(amount, unit), transfer, since.UTC().Format(time.DateTime)),
			evidence: []string{transfer, unit, left},
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at money in transit: %w", err)
	}
	return nil
}

// checkLag reports a shard that was late when the run began, and has caught up since: otherwise the run could not tell.
func (r *reconciliation) checkLag(context.Context) error {
	for shard, s := range r.scans {
		if s.late <= r.policy.ProjectionLag {
			continue
		}
		r.add(&Break{
			Class: ProjectionLag, Shard: shard, Action: Wait, evidence: []string{fmt.Sprint(s.log.head)},
			Detail: fmt.Sprintf("ClickHouse was %s behind Kafka when the run began; it has caught up", s.late.Round(time.Second)),
		})
	}
	return nil
}
