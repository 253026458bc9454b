package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is one kind of fault.
type Kind string

// The kinds of faults. FAULTS in docs/faults.md are mapped to them by these names.
const (
	RedisWipe        Kind = "redis-wipe"         // kill -9, comes back empty
	RedisRestore     Kind = "redis-restore"      // kill -9, comes back with an older state, outbox included
	RedisFork        Kind = "redis-fork"         // comes back with an older state, and somebody went on from it
	RedisLoseKey     Kind = "redis-lose-key"     // one key of a shard, or the mark of one, is gone
	RedisFlush       Kind = "redis-flush"        // SCRIPT FLUSH, again and again
	RedisLoseReplies Kind = "redis-lose-replies" // scripts run, their answers are lost
	RedisLate        Kind = "redis-late"         // requests arrive late: after their sender has given up
	RedisCut         Kind = "redis-cut"          // connections end
	RedisFull        Kind = "redis-full"         // OOM for a while
	WriterPause      Kind = "writer-pause"       // SIGSTOP past the transaction timeout, SIGCONT
	WriterKill       Kind = "writer-kill"        // kill -9 at any moment
	WriterTrap       Kind = "writer-trap"        // kills itself at a named step
	WriterDieCommit  Kind = "writer-die-commit"  // kill -9 while its commit is at the broker, which carries it out
	Rebalance        Kind = "rebalance"          // writers leave and join in good order
	KafkaError       Kind = "kafka-error"        // the broker answers with an error
	KafkaLoseReply   Kind = "kafka-lose-reply"   // the broker does it, the answer is lost
	KafkaKill        Kind = "kafka-kill"         // kill -9, restart: of the real broker, the embedded one is in this process
	ClickHouseKill   Kind = "clickhouse-kill"    // kill -9, restart
	ClickHouseLose   Kind = "clickhouse-lose"    // rows are stored, the answer is lost
	ClickHouseRefuse Kind = "clickhouse-refuse"  // no connections
	ProjectorKill    Kind = "projector-kill"     // kill -9
	ProjectorLeave   Kind = "projector-leave"    // stops in good order, comes back
)

type weighted struct {
	kind   Kind
	weight int
}

// Kinds are all kinds of faults.
func Kinds() []Kind {
	var all []Kind
	for _, w := range weights {
		all = append(all, w.kind)
	}
	return all
}

// weights says how often a kind is drawn.
var weights = []weighted{
	{RedisWipe, 6}, {RedisRestore, 8}, {RedisFork, 6}, {RedisLoseKey, 4}, {RedisFlush, 3}, {RedisLoseReplies, 8}, {RedisLate, 8}, {RedisCut, 4}, {RedisFull, 3},
	{WriterPause, 10}, {WriterKill, 5}, {WriterTrap, 12}, {WriterDieCommit, 6}, {Rebalance, 5},
	{KafkaError, 16}, {KafkaLoseReply, 10}, {KafkaKill, 8},
	{ClickHouseKill, 3}, {ClickHouseLose, 4}, {ClickHouseRefuse, 2}, {ProjectorKill, 4}, {ProjectorLeave, 2},
}

// possible tells whether a kind of fault can be produced.
func possible(kind Kind, apache bool) bool {
	switch kind { //nolint:exhaustive // the others need no particular broker
	case KafkaError:
		return !apache // the embedded one answers as it is told
	case KafkaKill:
		return apache // the embedded one lives in this process
	}
	return true
}

// forgetting kinds let Redis's state go back: what was read from Redis alone before may then not have happened.
var forgetting = []Kind{RedisWipe, RedisRestore, RedisFork, RedisLoseKey}

// forgettingTraps are steps of recoveries from such faults.
var forgettingTraps = []string{"replaying", "building", "swapped"}

// Fault is one fault of a plan.
type Fault struct {
	At, For time.Duration
	Kind    Kind
	// Target is a writer, a projector or a shard, modulo what there is.
	Target int
	// Detail is the trap, the key, the request and the error: what the kind needs.
	Detail string
	// Count of requests, or of hits of a trap.
	Count int
}

func (f Fault) String() string {
	text := fmt.Sprintf("%s target %d", f.Kind, f.Target)
	if f.Detail != "" {
		text += " " + f.Detail
	}
	if f.Count > 0 {
		text += fmt.Sprintf(" x%d", f.Count)
	}
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	return text
}

// Wave is a burst of commands, and of such as were sent before: late retries, redeliveries.
type Wave struct {
	At              time.Duration
	Commands, Again int
}

// Plan is everything that a seed decides. What it cannot decide is the timing of threads and processes.
type Plan struct {
	Seed                uint64
	Apache              bool // the real Apache Kafka instead of the embedded one
	Writers, Projectors int
	BatchRecords        int
	FromClickHouse      bool          // shards are rebuilt from ClickHouse and the log's tail, where it proves to be a prefix
	Window              time.Duration // for how long Redis remembers outcomes at least; 0 = for ever
	Stamped             bool          // commands say when they were first asked for
	Active              time.Duration // how long there are waves and faults
	Waves               []Wave
	Faults              []Fault
}

// Forgets tells whether a fault of the plan takes something from Redis.
func (p Plan) Forgets() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return slices.Contains(forgetting, f.Kind) || f.Kind == WriterTrap && slices.Contains(forgettingTraps, f.Detail)
	})
}

const (
	activePhase = 7 * time.Second
	wavesMin    = 6
	faultsMin   = 5
	faultsMore  = 7 // at most so many more
)

// Draw makes the plan of a seed, of the given kinds of faults alone, or of all, as far as the broker allows. The same seed gives the same plan for
// ever, unless this file changes.
func Draw(seed uint64, apache bool, kinds ...Kind) Plan {
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return !possible(k, apache) })
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable on purpose
	p := Plan{Seed: seed, Apache: apache, Writers: 1 + r.IntN(3), Projectors: 1 + r.IntN(2), Active: activePhase}
	p.BatchRecords = []int{20, 100, 1000}[r.IntN(3)]
	for range wavesMin + r.IntN(5) {
		p.Waves = append(p.Waves, Wave{At: within(r, p.Active), Commands: 50 + r.IntN(400), Again: one(r, 0, 0, 50)})
	}
	p.FromClickHouse, p.Stamped = r.IntN(2) == 0, r.IntN(2) == 0
	p.Window = one(r, 0, 168*time.Hour, time.Second, time.Second, 3*time.Second)
	if p.Window > 0 && p.Window < time.Minute {
		p.BatchRecords = max(p.BatchRecords, 100) // every command is looked up; one query for a few of them would take minutes in all
	}
	for range faultsMin + r.IntN(faultsMore+1) {
		p.Faults = append(p.Faults, drawFault(r, p.Active, kinds))
	}
	slices.SortFunc(p.Waves, func(a, b Wave) int { return int(a.At - b.At) })
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return p
}

func within(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d))).Round(time.Millisecond)
}

func drawFault(r *rand.Rand, active time.Duration, kinds []Kind) Fault {
	total := 0
	var drawn []weighted
	for _, w := range weights {
		if slices.Contains(kinds, w.kind) {
			drawn, total = append(drawn, w), total+w.weight
		}
	}
	f := Fault{At: within(r, active), Target: r.IntN(12), Count: 0}
	at := r.IntN(total)
	for _, w := range drawn {
		if at -= w.weight; at < 0 {
			f.Kind = w.kind
			break
		}
	}
	detail(r, &f)
	return f
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// detail draws what the kind needs.
func detail(r *rand.Rand, f *Fault) {
	short := 100*time.Millisecond + within(r, 1200*time.Millisecond)
	switch f.Kind {
	case RedisWipe, RedisRestore:
		f.For = within(r, 800*time.Millisecond) // away
	case RedisFork, WriterDieCommit, Rebalance, WriterKill, ProjectorKill, ProjectorLeave:
		f.For = within(r, 1500*time.Millisecond)
	case RedisLoseKey:
		f.Detail = one(r, "accounts", "holds", "recent", "old", "outbox", "head", "accounts-mark", "holds-mark", "recent-mark", "old-mark", "head-chain")
	case RedisFlush, RedisCut, RedisFull, KafkaKill, ClickHouseRefuse, ClickHouseKill:
		f.For = short
	case RedisLoseReplies, ClickHouseLose:
		f.Count, f.For = 1+r.IntN(5), short*2
	case RedisLate:
		f.For, f.Detail = short, one(r, "requests 350ms", "requests 900ms", "requests 1.6s", "answers 200ms", "answers 400ms")
	case WriterPause:
		f.For = 800*time.Millisecond + within(r, 2500*time.Millisecond) // the transaction timeout is in the middle, the session's too
	case WriterTrap:
		f.Detail, f.Count, f.For = one(r, "applied", "published", "committed", "inspected", "settled", "replaying", "building", "swapped"), 1+r.IntN(4), within(r, time.Second)
	case KafkaError:
		f.Detail, f.Count = drawKafkaError(r), one(r, 1, 1, 2, 4)
	case KafkaLoseReply:
		f.Detail, f.Count = one(r, "EndTxn", "EndTxn", "TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn", "InitProducerID", "Produce", "Heartbeat", "OffsetFetch", "SyncGroup", "OffsetCommit"), 1+r.IntN(2)
	}
}

// brokerErrors are errors that a broker may answer with, by request.
var brokerErrors = map[string]string{
	"Produce":            "NOT_LEADER_FOR_PARTITION REQUEST_TIMED_OUT NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND KAFKA_STORAGE_ERROR INVALID_PRODUCER_EPOCH UNKNOWN_SERVER_ERROR",
	"EndTxn":             "COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR CONCURRENT_TRANSACTIONS INVALID_PRODUCER_EPOCH PRODUCER_FENCED UNKNOWN_SERVER_ERROR",
	"TxnOffsetCommit":    "REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID COORDINATOR_LOAD_IN_PROGRESS REQUEST_TIMED_OUT NOT_COORDINATOR UNKNOWN_SERVER_ERROR",
	"AddPartitionsToTxn": "CONCURRENT_TRANSACTIONS COORDINATOR_NOT_AVAILABLE INVALID_PRODUCER_EPOCH UNKNOWN_SERVER_ERROR",
	"InitProducerID":     "CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR UNKNOWN_SERVER_ERROR",
	"Fetch":              "NOT_LEADER_FOR_PARTITION UNKNOWN_SERVER_ERROR KAFKA_STORAGE_ERROR UNKNOWN_TOPIC_OR_PARTITION",
	"Heartbeat":          "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION COORDINATOR_NOT_AVAILABLE",
	"JoinGroup":          "COORDINATOR_NOT_AVAILABLE UNKNOWN_MEMBER_ID",
	"SyncGroup":          "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID",
	"OffsetFetch":        "UNSTABLE_OFFSET_COMMIT COORDINATOR_LOAD_IN_PROGRESS UNKNOWN_SERVER_ERROR",
	"OffsetCommit":       "REBALANCE_IN_PROGRESS ILLEGAL_GENERATION REQUEST_TIMED_OUT COORDINATOR_LOAD_IN_PROGRESS",
	"ListOffsets":        "NOT_LEADER_FOR_PARTITION UNKNOWN_SERVER_ERROR",
}

func drawKafkaError(r *rand.Rand) string {
	request := one(r, "Produce", "Produce", "EndTxn", "EndTxn", "EndTxn", "TxnOffsetCommit", "TxnOffsetCommit", "AddPartitionsToTxn", "InitProducerID",
		"Fetch", "Heartbeat", "JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit", "ListOffsets")
	return request + " " + one(r, strings.Fields(brokerErrors[request])...)
}
