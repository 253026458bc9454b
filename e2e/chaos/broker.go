package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotledger/hotledger/sandbox"
)

// broker is Kafka, with everything that can go wrong between it and a client: in this process, or the real one behind a front.
type broker struct {
	fake  *sandbox.Kafka // nil: the real one
	real  *sandbox.ApacheKafka
	front *front // of the real one

	mu     sync.Mutex
	losing map[int16]int              // request key -> answers to lose
	watch  func(key int16, by string) // sees every request, before the broker does; by = client id
	lost   int
	faults []*kfake.FaultHandle
}

func startBroker(ctx context.Context, apache bool) (_ *broker, err error) {
	b := &broker{losing: map[int16]int{}}
	if apache {
		return b, b.startApache(ctx)
	}
	b.fake, err = sandbox.StartKafka(sandbox.KafkaOptions{Options: []kfake.Opt{
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}), // Kafka's default is 6 s
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			inner, err := net.Listen(network, address)
			return &listener{inner, b}, err
		}),
	}})
	return b, err
}

// addr is host:port that clients are given.
func (b *broker) addr() string {
	if b.front != nil {
		return b.front.addr()
	}
	return b.fake.Addrs()[0]
}

func (b *broker) close() {
	if b.front != nil {
		b.front.close()
		_ = b.real.Stop() // it is in a directory of its own, and nobody uses it any more
		return
	}
	b.fake.Close()
}

// writersGroup is the default of LEDGER_WRITER_GROUP.
const writersGroup = "ledger-writer"

// requests that faults are drawn for.
var requestKeys = map[string]kmsg.Key{
	"Produce": kmsg.Produce, "EndTxn": kmsg.EndTxn, "TxnOffsetCommit": kmsg.TxnOffsetCommit, "AddPartitionsToTxn": kmsg.AddPartitionsToTxn,
	"AddOffsetsToTxn": kmsg.AddOffsetsToTxn, "InitProducerID": kmsg.InitProducerID, "Fetch": kmsg.Fetch, "Heartbeat": kmsg.Heartbeat,
	"JoinGroup": kmsg.JoinGroup, "SyncGroup": kmsg.SyncGroup, "OffsetFetch": kmsg.OffsetFetch, "OffsetCommit": kmsg.OffsetCommit, "ListOffsets": kmsg.ListOffsets,
}

// answerWith makes the broker answer the next count requests with an error. "EndTxn PRODUCER_FENCED". Only what writers and projectors send is
// meant: producing needs a transaction.
func (b *broker) answerWith(detail string, count int) error {
	request, code, _ := strings.Cut(detail, " ")
	key, ok := requestKeys[request]
	if !ok {
		return fmt.Errorf("no request is called %q", request)
	}
	var found *kerr.Error
	for n := int16(-1); n < 200; n++ {
		if e, ok := kerr.ErrorForCode(n).(*kerr.Error); ok && e.Message == code { //nolint:errorlint // kerr's own table
			found = e
		}
	}
	if found == nil {
		return fmt.Errorf("no error of Kafka is called %q", code)
	}
	fault := kfake.Fault{Keys: []kmsg.Key{key}, Err: found, Count: count}
	if code == "UNKNOWN_MEMBER_ID" {
		// The member stays, though it is told that it does not exist: a ghost, until its session times out. That takes the projectors' group
		// longer than a seed.
		fault.Group = writersGroup
	}
	if key == kmsg.Produce {
		fault.When = func(r kmsg.Request) bool {
			produce, ok := r.(*kmsg.ProduceRequest)
			return ok && produce.TransactionID != nil
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, b.fake.Cluster().Fault(fault))
	return nil
}

// loseReplies loses the next count answers to a request: the broker does what it asks, and hangs up instead of answering.
func (b *broker) loseReplies(request string, count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losing[requestKeys[request].Int16()] += count
}

// onRequest has every request shown to watch; nil ends it.
func (b *broker) onRequest(watch func(key int16, by string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch = watch
}

// heal ends all faults and tells how many requests they hit.
func (b *broker) heal() (hits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		hits += f.Hits()
		f.Remove()
	}
	b.faults, b.losing, b.watch = nil, map[int16]int{}, nil
	return hits + b.lost
}

// seen decides whether the answer to a request gets lost.
func (b *broker) seen(key int16, by string) (lose bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watch != nil {
		b.watch(key, by)
	}
	if b.losing[key] == 0 {
		return false
	}
	b.losing[key]--
	b.lost++
	return true
}

type listener struct {
	net.Listener
	broker *broker
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conversation{Conn: conn, broker: l.broker, doomed: map[uint32]bool{}}, nil
}

// conversation reads along with one connection. A request is size(4) key(2) version(2) correlation(4) client id(2 + n) ...; an answer is
// size(4) correlation(4) ..., and the broker writes it in one piece.
type conversation struct {
	net.Conn
	broker *broker

	// Of the reading goroutine.
	header []byte
	skip   int // bytes of the current request still to come

	mu     sync.Mutex
	doomed map[uint32]bool // correlation ids
}

const fixedHeader = 14 // up to and with the length of the client id

func (c *conversation) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.follow(p[:n])
	return n, err
}

func (c *conversation) follow(p []byte) {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(p))
			c.skip, p = c.skip-n, p[n:]
			continue
		}
		c.header, p = append(c.header, p[0]), p[1:]
		if len(c.header) < fixedHeader {
			continue
		}
		id := max(0, int(int16(binary.BigEndian.Uint16(c.header[12:]))))
		if len(c.header) < fixedHeader+id {
			continue
		}
		if c.broker.seen(int16(binary.BigEndian.Uint16(c.header[4:])), string(c.header[fixedHeader:])) {
			c.mu.Lock()
			c.doomed[binary.BigEndian.Uint32(c.header[8:])] = true
			c.mu.Unlock()
		}
		c.skip = int(binary.BigEndian.Uint32(c.header)) + 4 - len(c.header)
		c.header = c.header[:0]
	}
}

func (c *conversation) Write(p []byte) (int, error) {
	if len(p) >= 8 {
		c.mu.Lock()
		doomed := c.doomed[binary.BigEndian.Uint32(p[4:])]
		c.mu.Unlock()
		if doomed {
			_ = c.Close()
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(p)
}
