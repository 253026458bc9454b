package reason_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	ledgerv1 "github.com/hotledger/hotledger/schemas/ledger/v1"
	"github.com/hotledger/hotledger/schemas/reason"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryReasonSaysWhatItMeansAndWhatToDo(t *testing.T) {
	t.Parallel()
	codes := make(map[string]ledgerv1.Reason)
	for number, name := range ledgerv1.Reason_name {
		r := ledgerv1.Reason(number)
		entry := reason.Of(r)
		want := strings.TrimPrefix(name, "REASON_")
		if r == ledgerv1.Reason_REASON_UNSPECIFIED {
			want = ""
		}
		if entry.Code != want {
			t.Errorf("%s: code %q, want %q", name, entry.Code, want)
		}
		if other, twice := codes[entry.Code]; twice {
			t.Errorf("%s and %s share the code %q", r, other, entry.Code)
		}
		codes[entry.Code] = r
		if strings.Contains(entry.Text, "This build does not know") {
			t.Errorf("%s: not in the catalogue", name)
		}
		for _, sentence := range []string{entry.Text, entry.NextStep} {
			if len(sentence) < 20 || !strings.HasSuffix(sentence, ".") {
				t.Errorf("%s: %q is no sentence", name, sentence)
			}
		}
	}
}

// A caller who retries a recorded rejection under its id gets the same answer for ever, so the catalogue has to say so.
func TestANextStepAfterARecordedRejectionNamesANewID(t *testing.T) {
	t.Parallel()
	for number, name := range ledgerv1.Reason_name {
		r := ledgerv1.Reason(number)
		if r == ledgerv1.Reason_REASON_UNSPECIFIED || r == ledgerv1.Reason_REASON_INVALID_COMMAND_ID {
			continue // nothing to do; nothing was recorded
		}
		if !strings.Contains(reason.Of(r).NextStep, "new command id") {
			t.Errorf("%s: the next step does not say that a new command id is needed", name)
		}
	}
}

func TestAReasonFromANewerBuildIsStillShown(t *testing.T) {
	t.Parallel()
	entry := reason.Of(ledgerv1.Reason(9999))
	if entry.Code != "9999" || entry.Text == "" || entry.NextStep == "" {
		t.Errorf("got %+v", entry)
	}
}
