package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// typoDistanceMax is how many letters may be wrong, missing or too many in a variable that still counts as a slip for
// a known key. Two is enough for every single slip, exchanged letters included.
const typoDistanceMax = 2

// injected matches what Kubernetes sets in every pod for a Service that happens to be called like the process. Such
// variables are nobody's mistake.
var injected = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// unknown reports the variables in environment that look like ours and are not: those with the service's own prefix,
// and those that are a slip away from a known key of the same family (REDIS_ADDR for REDIS_ADDRS). Only names are
// printed, never values.
func unknown(service string, keys map[string]bool, environment map[string]string) []string {
	own := strings.ReplaceAll(strings.ToUpper(service), "-", "_") + "_"
	sorted := slices.Sorted(maps.Keys(keys))
	var problems []string
	for name, value := range environment {
		if keys[name] || injected.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
			continue
		}
		nearest, distance := nearestKey(name, sorted)
		switch {
		case distance <= typoDistanceMax:
			problems = append(problems, fmt.Sprintf("%s: unknown key; did you mean %s?", name, nearest))
		case strings.HasPrefix(name, own):
			problems = append(problems, fmt.Sprintf("%s: unknown key; the keys that begin with %s are: %s", name, own, withPrefix(sorted, own)))
		}
	}
	return problems
}

func withPrefix(keys []string, prefix string) string {
	var own []string
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) {
			own = append(own, key)
		}
	}
	if len(own) == 0 {
		return "none"
	}
	return strings.Join(own, ", ")
}

// nearestKey finds the key with the least edit distance among those of the same family (the word before the first
// underscore). Without any, the key is empty and the distance beyond every limit.
func nearestKey(name string, keys []string) (string, int) {
	family, _, _ := strings.Cut(name, "_")
	best, least := "", 1<<30
	for _, key := range keys {
		if !strings.HasPrefix(key, family+"_") {
			continue
		}
		if d := editDistance(name, key); d < least {
			best, least = key, d
		}
	}
	return best, least
}

// editDistance is Levenshtein's: insertions, deletions and substitutions of single bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
