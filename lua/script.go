package lua

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua include/*.lua
var sources embed.FS

var includeLine = regexp.MustCompile(`(?m)^-- @include (.+)$`)

var (
	applyScript   = load("apply")
	replayScript  = load("replay")
	loadScript    = load("load")
	swapScript    = load("swap")
	inspectScript = load("inspect")
	recallScript  = load("recall")
)

// load bundles a script with the fragments that it includes.
func load(name string) *redis.Script {
	body := includeLine.ReplaceAllStringFunc(read(name+".lua"), func(line string) string {
		var fragments strings.Builder
		for _, fragment := range strings.Fields(includeLine.FindStringSubmatch(line)[1]) {
			fragments.WriteString(read("include/" + fragment + ".lua"))
		}
		return fragments.String()
	})
	return redis.NewScript(body)
}

func read(name string) string {
	source, err := sources.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("script %s is not part of the build: %v", name, err)) // embedded: only a typo in load gets here
	}
	return string(source)
}
