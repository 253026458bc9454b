package lua

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Store is the ledger's state in one Redis (single node, Sentinel or Cluster). Safe for concurrent use; it keeps no state of its own.
// Its client must never retry by itself: a lost reply is resolved by asking again with the same head (PROTOCOL: see ARCHITECTURE.md).
type Store struct {
	rdb    redis.UniversalClient
	window time.Duration // for how long outcomes are remembered at least; 0 = for ever
}

// New makes a Store over a client with MaxRetries -1. It forgets nothing.
func New(rdb redis.UniversalClient) *Store { return &Store{rdb: rdb} }

// Remembering returns the Store that remembers outcomes for a window at least, and for at most two; 0 = for ever. Whoever applies commands with
// it has to answer a TooOldError.
func (s *Store) Remembering(window time.Duration) *Store { return &Store{rdb: s.rdb, window: window} }

// What a script can answer besides a decision. Nothing was written.
var (
	// ErrOutOfSync: Redis is not where the caller believes. Recover before the next call.
	ErrOutOfSync = errors.New("redis is out of sync")
	// ErrCorrupt: a record in Redis cannot be read. Rebuild the shard from the log.
	ErrCorrupt = errors.New("redis holds a corrupt record")
)

// A TooOldError says that some commands of a call were asked for so long ago that their outcomes may be forgotten. Look up those before Since, in a
// ClickHouse that is complete through Forgotten; apply what is not found there, with LookedUp.
type TooOldError struct {
	Since     time.Time // what was asked for later has no forgotten outcome
	Forgotten Head      // every outcome above it is remembered
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("commands from before %s may be known: outcomes up to %s are forgotten", e.Since.UTC().Format(time.RFC3339), e.Forgotten)
}

// decidedWord is what a script answers that did what it was asked.
const decidedWord = "DECIDED"

// answer reads the words that every script returns: {"DECIDED" | "OUT_OF_SYNC" | "CORRUPT", position, chain, ...}.
func answer(reply []any) (Head, []string, error) {
	words, err := texts(reply)
	if err != nil {
		return Head{}, nil, err
	}
	if len(words) < 3 {
		return Head{}, nil, fmt.Errorf("script answered %q, cut short", words)
	}
	rest := words[3:]
	switch words[0] {
	case decidedWord:
		head, err := parseHead(words[1], words[2])
		return head, rest, err
	case "OUT_OF_SYNC":
		return Head{}, nil, fmt.Errorf("%w: %s: redis is at %s:%.12s", ErrOutOfSync, strings.Join(rest, " "), words[1], words[2])
	case "TOO_OLD":
		return Head{}, nil, tooOld(rest)
	case "CORRUPT":
		return Head{}, nil, fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(rest, " "))
	}
	return Head{}, nil, fmt.Errorf("script answered %q", words[0])
}

// skew is SKEW of include/window.lua: how far the clocks of callers and writers may be apart.
const skew = 10 * time.Minute

func tooOld(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("script answered TOO_OLD %q", words)
	}
	horizon, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return fmt.Errorf("script answered TOO_OLD %q: %w", words, err)
	}
	forgotten, err := parseWords(words[1])
	if err != nil {
		return fmt.Errorf("script answered TOO_OLD %q: %w", words, err)
	}
	return &TooOldError{Since: time.UnixMilli(horizon).Add(skew), Forgotten: forgotten}
}

func texts(reply []any) ([]string, error) {
	words := make([]string, len(reply))
	for i, v := range reply {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("script answered %T at place %d, not text", v, i)
		}
		words[i] = s
	}
	return words, nil
}

func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]any, error) {
	return script.Run(ctx, s.rdb, keys, args...).Slice()
}
