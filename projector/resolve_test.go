package projector

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// rowsUpTo is a whole watermark whose position n is at Kafka offset 2n.
func rowsUpTo(last uint64) watermark {
	if last == 0 {
		return watermark{sum: new(big.Int)}
	}
	return watermark{rows: last, first: 1, last: last, sum: new(big.Int).SetUint64(last * (last + 1) / 2), offset: 2 * last}
}

func TestTakeOverDecidesByMarkAndWatermark(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1000)
	intent := func(done, to uint64) *mark {
		m := &mark{Version: markVersion, Topic: "id", Epoch: 7, Done: done}
		if to > 0 {
			m.From, m.To, m.ToOffset = done+1, to, int64(2*to)
		}
		return m
	}
	holed, doubled := rowsUpTo(10), rowsUpTo(10)
	holed.rows--
	doubled.rows, doubled.sum = 10, new(big.Int).SetUint64(54) // 9 once more, 10 of it twice, and 1 missing in count
	late := intent(5, 0)
	late.Epoch = 5000
	for name, c := range map[string]struct {
		mark    *mark
		rows    watermark
		logEnd  int64
		topic   string
		verdict verdict
		epoch   int64
		halt    string
	}{
		"new group, no rows":             {nil, rowsUpTo(0), 0, "id", fresh, 1000, ""},
		"new group, rows":                {nil, rowsUpTo(9), 100, "id", fresh, 1000, ""},
		"clean":                          {intent(9, 0), rowsUpTo(9), 100, "id", landed, 7, ""},
		"clean at the very end":          {intent(9, 0), rowsUpTo(9), 19, "id", landed, 7, ""},
		"clean, nothing yet":             {intent(0, 0), rowsUpTo(0), 0, "id", landed, 7, ""},
		"intent landed":                  {intent(9, 12), rowsUpTo(12), 100, "id", landed, 7, ""},
		"intent did not land":            {intent(9, 12), rowsUpTo(9), 100, "id", resend, 7, ""},
		"first intent did not land":      {intent(0, 12), rowsUpTo(0), 100, "id", resend, 7, ""},
		"half a batch":                   {intent(9, 12), rowsUpTo(11), 100, "id", "", 0, haltIntent},
		"rows lost":                      {intent(9, 0), rowsUpTo(8), 100, "id", behind, 1000, ""},
		"all rows lost":                  {intent(9, 12), rowsUpTo(0), 100, "id", behind, 1000, ""},
		"rows lost, clock behind":        {late, rowsUpTo(4), 100, "id", behind, 5001, ""},
		"offsets set back":               {intent(3, 0), rowsUpTo(9), 100, "id", ahead, 1000, ""},
		"offsets set back to an intent":  {intent(3, 5), rowsUpTo(9), 100, "id", ahead, 1000, ""},
		"topic created again":            {intent(9, 0), rowsUpTo(9), 100, "other", "", 0, haltLog},
		"log shorter than the rows":      {intent(9, 0), rowsUpTo(9), 18, "id", "", 0, haltLog},
		"log shorter than the intent":    {intent(9, 12), rowsUpTo(9), 24, "id", "", 0, haltLog},
		"log shorter, offsets are reset": {nil, rowsUpTo(9), 0, "id", "", 0, haltLog},
		"row missing":                    {intent(10, 0), holed, 100, "id", "", 0, haltClickHouse},
		"row doubled and row missing":    {intent(10, 0), doubled, 100, "id", "", 0, haltClickHouse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := (&worker{}).resolve(standing{topic: c.topic, logEnd: c.logEnd, mark: c.mark, rows: c.rows}, now)
			var halt *HaltError
			switch {
			case c.halt != "":
				if !errors.As(err, &halt) || halt.Reason != c.halt {
					t.Fatalf("got %v, want a halt: %s", err, c.halt)
				}
			case err != nil || p.verdict != c.verdict || p.mark.Epoch != c.epoch || p.mark.Done != c.rows.last || p.mark.Topic != "id":
				t.Fatalf("got %+v, %v", p, err)
			case p.mark.intended() != (c.verdict == resend):
				t.Fatalf("intent of a %s: %+v", c.verdict, p.mark)
			}
		})
	}
}

func TestOnlyOwnMetadataIsRead(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{"", "kgo", "consumer-1-abc", "{}", `{"a":1}`, "{"} {
		if m, err := parseMark(foreign); m != nil || err != nil {
			t.Errorf("%q: %+v, %v", foreign, m, err)
		}
	}
	for _, bad := range []string{`{"v":2}`, `{"v":1,"done":3,"from":3,"to":5}`, `{"v":1,"done":3,"from":4,"to":2}`} {
		if m, err := parseMark(bad); err == nil {
			t.Errorf("%q: %+v", bad, m)
		}
	}
}

func TestErrorsThatNoRepetitionHeals(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]bool{
		60:  false, // UNKNOWN_TABLE: somebody restores it
		81:  false, // UNKNOWN_DATABASE
		159: false, // TIMEOUT_EXCEEDED
		202: false, // TOO_MANY_SIMULTANEOUS_QUERIES
		241: false, // MEMORY_LIMIT_EXCEEDED
		252: false, // TOO_MANY_PARTS
		319: false, // UNKNOWN_STATUS_OF_INSERT
		16:  true, 53: true, 70: true, 115: true, 469: true,
	} {
		if got := refused(errors.Join(errors.New("send batch"), &proto.Exception{Code: code})); got != want {
			t.Errorf("code %d: refused %t", code, got)
		}
	}
	if !refused(&column.ColumnConverterError{}) || refused(errors.New("broken pipe")) || refused(nil) {
		t.Error("refused is wrong for errors of the driver")
	}
}
