package lua

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Answers per pair: sum, difference, whether the first is below, whether the sum is in range, the first as it was read.
var limbs = redis.NewScript(read("include/amount.lua") + `
local answers = {}
for i = 1, #ARGV, 2 do
    local a_high, a_low = amount(ARGV[i])
    local b_high, b_low = amount(ARGV[i + 1])
    local high, low = plus(a_high, a_low, b_high, b_low)
    answers[#answers + 1] = digits(high, low) .. ' ' .. digits(minus(a_high, a_low, b_high, b_low)) .. ' '
        .. tostring(below(a_high, a_low, b_high, b_low)) .. ' ' .. tostring(in_range(high, low)) .. ' ' .. digits(a_high, a_low)
end
return answers`)

func TestLimbArithmeticAgreesWithBigIntegers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	const calls, pairs = 20, 5_000
	limit, ok := new(big.Int).SetString(most, 10)
	if !ok {
		t.Fatal(most)
	}
	edges := []int64{0, 1, 9_999, 10_000, 10_001, 999_999_999, 1_000_000_000, 1_000_000_001, 1 << 53, 1_000_000_000_000_000, 999_999_999_999_990_000, 999_999_999_999_999_999}
	draw := func() *big.Int {
		v := random.Int64N(1_000_000_000_000_000_000)
		switch random.IntN(4) {
		case 0:
			v = edges[random.IntN(len(edges))] + int64(random.IntN(3)-1)
		case 1:
			v /= []int64{1e3, 1e6, 1e9, 1e12, 1e14, 1e15, 1e17}[random.IntN(7)]
		}
		n := big.NewInt(min(max(v, 0), 999_999_999_999_999_999))
		if random.IntN(2) == 0 {
			n.Neg(n)
		}
		return n
	}
	for range calls {
		args, want := make([]any, 0, 2*pairs), make([]string, pairs)
		for i := range want {
			x, y := draw(), draw()
			args = append(args, x.String(), y.String())
			sum := new(big.Int).Add(x, y)
			want[i] = fmt.Sprintf("%s %s %t %t %s", sum, new(big.Int).Sub(x, y), x.Cmp(y) < 0, sum.CmpAbs(limit) <= 0, x)
		}
		got, err := limbs.Run(t.Context(), b.rdb, []string{AccountsKey(b.shard)}, args...).StringSlice()
		b.ok(err)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s and %s gave\n%s, not\n%s", args[2*i], args[2*i+1], got[i], want[i])
			}
		}
	}
}
