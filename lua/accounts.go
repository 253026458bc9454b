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
	fields, err := s.rdb.HMGet(ctx, HeadKey(shard), headFields...).Result()
	if err != nil {
		return ShardHead{}, fmt.Errorf("read head of shard %d: %w", shard, err)
	}
	return shardHead(shard, fields)
}

var headFields = []string{"position", "chain", "generation"}

func shardHead(shard int, fields []any) (ShardHead, error) {
	words, err := texts(fields)
	if err != nil || len(words) != len(headFields) {
		return ShardHead{}, fmt.Errorf("%w: shard %d has no head", ErrOutOfSync, shard)
	}
	head, err := parseHead(words[0], words[1])
	if err != nil {
		return ShardHead{}, fmt.Errorf("shard %d: %w", shard, err)
	}
	return ShardHead{Head: head, Generation: words[2]}, nil
}

// Page is some fields of one of a shard's hashes, without its marker, and the head of the same moment: what the fields say is the fold of the
// log up to that head, if the head is in the log.
type Page struct {
	Head   ShardHead
	Fields [][2]string // name, value
	Next   uint64      // cursor; 0 at the end
}

// ReadPage reads about count fields of AccountsKey or HoldsKey. Begin with cursor 0. A field that exists all the while is returned at least once,
// perhaps twice. ErrOutOfSync: the shard has no head, or its keys do not belong together.
func (s *Store) ReadPage(ctx context.Context, shard int, key string, cursor uint64, count int64) (Page, error) {
	pipe := s.rdb.TxPipeline()
	fields := pipe.HScan(ctx, key, cursor, "", count)
	marker := pipe.HGet(ctx, key, "")
	words := pipe.HMGet(ctx, HeadKey(shard), headFields...)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return Page{}, fmt.Errorf("read %s: %w", key, err)
	}
	head, err := shardHead(shard, words.Val())
	if err != nil {
		return Page{}, err
	}
	if marker.Val() != head.Chain {
		return Page{}, fmt.Errorf("%w: the keys of shard %d do not belong together", ErrOutOfSync, shard)
	}
	all, next := fields.Val()
	page := Page{Head: head, Next: next}
	for i := 0; i+1 < len(all); i += 2 {
		if all[i] != "" {
			page.Fields = append(page.Fields, [2]string{all[i], all[i+1]})
		}
	}
	return page, nil
}

// Accounts reads one page of a shard's accounts. Records that cannot be read come back in corrupt, by account, with their text.
func (s *Store) Accounts(ctx context.Context, shard int, cursor uint64, count int64) (accounts []Account, corrupt map[string]string, next uint64, err error) {
	page, err := s.ReadPage(ctx, shard, AccountsKey(shard), cursor, count)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, f := range page.Fields {
		a, err := ParseAccount(f[0], f[1])
		if err != nil {
			if corrupt == nil {
				corrupt = map[string]string{}
			}
			corrupt[f[0]] = f[1]
			continue
		}
		accounts = append(accounts, a)
	}
	return accounts, corrupt, page.Next, nil
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
