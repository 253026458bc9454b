package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

// transientCodes begin the error replies that say something about the state of a server and nothing about the command:
// the same call may succeed later or elsewhere.
var transientCodes = []string{
	"OOM",         // maxmemory is reached; noeviction refuses writes
	"BUSY",        // another script has been running for long
	"LOADING",     // reading its data set from disk
	"READONLY",    // a replica: failover in progress
	"MISCONF",     // cannot persist and therefore refuses writes
	"MASTERDOWN",  // a replica without its master
	"TRYAGAIN",    // slots are being moved
	"CLUSTERDOWN", // slots without a master
	"MOVED",       // the map of slots is old; it is refreshed by this error
	"ASK",         // the slot is on its way to another node
	"NOREPLICAS",  // fewer replicas than min-replicas-to-write
	"NOSCRIPT",    // the script cache is empty: load it and go on
}

// transientTexts are errors of the server and of the client library that have neither a code nor a type.
var transientTexts = []string{
	"ERR max number of clients reached",
	"redis: all sentinels specified in configuration are unreachable",
	"redis: cluster has no nodes",
}

// IsTransient says whether err is trouble of the infrastructure: never an outcome, and possibly gone at the next try.
// Whether the command was executed is then unknown, except that nothing was changed by one that a server refused by
// its code. It sees through wrapping and through the words that Redis puts around an error inside a script. A
// cancelled context is the caller's decision and not transient.
func IsTransient(err error) bool {
	switch {
	case err == nil, errors.Is(err, goredis.Nil), errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrClosed):
		return false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return true
	}
	var reply goredis.Error
	if errors.As(err, &reply) {
		return isTransientReply(reply.Error())
	}
	var network net.Error // timeouts, refused dials, unresolved names; context.DeadlineExceeded is one as well
	if errors.As(err, &network) {
		return true
	}
	return slices.ContainsFunc(transientTexts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

func isTransientReply(text string) bool {
	if code, _, _ := strings.Cut(text, " "); slices.Contains(transientCodes, code) {
		return true
	}
	if slices.ContainsFunc(transientTexts, func(known string) bool { return strings.HasPrefix(text, known) }) {
		return true
	}
	// Before 7.0 an error inside a script arrives as "ERR Error running script (...): @user_script:7: -READONLY You
	// can't write ...": the code stands in the middle.
	if !strings.HasPrefix(text, "ERR ") || !strings.Contains(text, "script") {
		return false
	}
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		return slices.Contains(transientCodes, strings.Trim(word, "-:"))
	})
}
