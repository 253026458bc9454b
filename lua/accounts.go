package lua

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ShardHead is a shard's head with the generation of its keys.
type ShardHead struct {
	Head
	Generation string
}

// Head reads how far a shard is in Redis. A shard without a head is an error: ErrOutOfSync.
func (s *Store) Head(ctx context.Context, shard int) (ShardHead, error) {
	fields, err := s.rdb.HMGet(ctx, HeadKey(shard), "position", "chain", "generation").Result()
	if err != nil {
		return ShardHead{}, fmt.Errorf("read head of shard %d: %w", shard, err)
	}
	words, err := texts(fields)
	if err != nil {
		return ShardHead{}, fmt.Errorf("%w: shard %d has no head", ErrOutOfSync, shard)
	}
	head, err := parseHead(words[0], words[1])
	if err != nil {
		return ShardHead{}, fmt.Errorf("shard %d: %w", shard, err)
	}
	return ShardHead{Head: head, Generation: words[2]}, nil
}

// Accounts reads one page of a shard's accounts, about count of them. Begin with cursor 0; a returned cursor of 0 is the end.
// An account that exists all the while is returned at least once, perhaps twice; each record is one moment, the page is not.
// Records that cannot be read come back in corrupt, by account, with their text.
func (s *Store) Accounts(ctx context.Context, shard int, cursor uint64, count int64) (page []Account, corrupt map[string]string, next uint64, err error) {
	fields, next, err := s.rdb.HScan(ctx, AccountsKey(shard), cursor, "", count).Result()
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read accounts of shard %d: %w", shard, err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "" {
			continue // the shard's marker
		}
		a, err := ParseAccount(fields[i], fields[i+1])
		if err != nil {
			if corrupt == nil {
				corrupt = map[string]string{}
			}
			corrupt[fields[i]] = fields[i+1]
			continue
		}
		page = append(page, a)
	}
	return page, corrupt, next, nil
}

// Account reads one account; false if Redis does not have it.
func (s *Store) Account(ctx context.Context, shard int, id string) (Account, bool, error) {
	record, err := s.rdb.HGet(ctx, AccountsKey(shard), id).Result()
	if errors.Is(err, redis.Nil) {
		return Account{}, false, nil
	}
	if err != nil {
		return Account{}, false, fmt.Errorf("read account %q: %w", id, err)
	}
	a, err := ParseAccount(id, record)
	return a, err == nil, err
}
