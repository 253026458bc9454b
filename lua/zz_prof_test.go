package lua

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
)

func TestZZProf(t *testing.T) {
	if os.Getenv("PROF") == "" {
		t.Skip()
	}
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("PROF"), MaxRetries: -1, ReadTimeout: time.Minute})
	defer rdb.Close()
	ctx := context.Background()
	rdb.FlushAll(ctx)
	rdb.ConfigResetStat(ctx)
	s := New(rdb)
	mk := func(id string, op ledgerv1.Operation, amount string) Command {
		c := &ledgerv1.Command{CommandId: id, Account: "flash-sale-17", Operation: op, Amount: amount, Currency: "EUR"}
		body, _ := proto.Marshal(c)
		return Command{Command: c, Fingerprint: FingerprintOf(c), Body: body}
	}
	b, _ := s.BeginBuild(ctx, 0, "g1")
	b.Swap(ctx)
	head := Genesis
	r := s.Apply(ctx, Call{Expected: head, Now: time.Now(), Commands: []Command{mk("o", 1, ""), mk("f", 3, "99999999999")}})[0]
	head = r.Head
	n := 500
	var inGo time.Duration
	for k := 0; k < 200; k++ {
		var cs []Command
		for i := 0; i < n; i++ {
			cs = append(cs, mk(fmt.Sprint("d", k*n+i), 2, "1"))
		}
		st := time.Now()
		r := s.Apply(ctx, Call{Expected: head, Now: time.Now(), Commands: cs})[0]
		inGo += time.Since(st)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		head = r.Head
		s.Trim(ctx, 0, []string{r.Entry})
	}
	for _, l := range strings.Split(rdb.Info(ctx, "commandstats").Val(), "\n") {
		if strings.Contains(l, "evalsha") || strings.Contains(l, "xadd") || strings.Contains(l, "hset") || strings.Contains(l, "hmget") {
			fmt.Println(l)
		}
	}
	fmt.Println("per command wall", inGo/time.Duration(200*n))
}
