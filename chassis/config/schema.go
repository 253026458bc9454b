package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// field is one knob: a struct field with an env tag.
type field struct {
	key      string // environment variable, such as KAFKA_BROKERS
	fallback string // the default, as it would be written in the environment
	help     string // purpose and special values, one sentence
	secret   bool
	spec     reflect.StructField
	value    reflect.Value
}

// flag is the name of the field's flag: KAFKA_BROKERS -> kafka-brokers.
func (f field) flag() string { return strings.ReplaceAll(strings.ToLower(f.key), "_", "-") }

// kind is the word that usage texts print for the value.
func (f field) kind() string {
	switch {
	case f.spec.Type == reflect.TypeFor[time.Duration]():
		return "duration"
	case f.spec.Type.Kind() == reflect.Slice:
		return "list"
	}
	return f.spec.Type.Kind().String()
}

// fieldsOf lists the knobs of cfg (a pointer to a struct) in the order in which they are declared, nested structs in
// place. A broken struct is a mistake of the programmer, not of the operator: it panics.
func fieldsOf(cfg any) []field {
	v := reflect.ValueOf(cfg)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: want a pointer to a struct, got %T", cfg))
	}
	var all []field
	seen := map[string]string{}
	walk(v.Elem(), func(f field) {
		if f.help == "" {
			panic(fmt.Sprintf("config: %s has no help tag", f.key))
		}
		if before, twice := seen[f.key]; twice && before != f.fallback {
			panic(fmt.Sprintf("config: %s is declared twice with different defaults, %q and %q", f.key, before, f.fallback))
		}
		seen[f.key] = f.fallback
		all = append(all, f)
	})
	return all
}

func walk(v reflect.Value, visit func(field)) {
	for i := range v.NumField() {
		spec := v.Type().Field(i)
		if !spec.IsExported() {
			continue
		}
		key, _, _ := strings.Cut(spec.Tag.Get("env"), ",")
		if key != "" {
			visit(field{
				key:      key,
				fallback: spec.Tag.Get("envDefault"),
				help:     spec.Tag.Get("help"),
				secret:   spec.Type == reflect.TypeFor[Secret](),
				spec:     spec,
				value:    v.Field(i),
			})
			continue
		}
		if spec.Type.Kind() == reflect.Struct && !reflect.PointerTo(spec.Type).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			walk(v.Field(i), visit)
		}
	}
}

// Keys lists the environment variables that cfg (a pointer to a struct) reads, each once, in the order of the struct.
func Keys(cfg any) []string {
	var keys []string
	seen := map[string]bool{}
	for _, f := range fieldsOf(cfg) {
		if !seen[f.key] {
			seen[f.key] = true
			keys = append(keys, f.key)
		}
	}
	return keys
}

// Table renders the knobs of cfg (a pointer to a struct) as the Markdown table of a README: key, default, meaning.
func Table(cfg any) string {
	var b strings.Builder
	b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	seen := map[string]bool{}
	for _, f := range fieldsOf(cfg) {
		if seen[f.key] {
			continue
		}
		seen[f.key] = true
		fallback := ""
		if f.fallback != "" {
			fallback = "`" + cell(f.fallback) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.key, fallback, cell(f.help))
	}
	return b.String()
}

// cell escapes what would end a table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// Effective lists the values of cfg (a pointer to a struct) by key, to be logged once at the start. Secrets are
// redacted.
func Effective(cfg any) map[string]string {
	values := map[string]string{}
	for _, f := range fieldsOf(cfg) {
		if list, ok := f.value.Interface().([]string); ok {
			values[f.key] = strings.Join(list, ",")
			continue
		}
		values[f.key] = fmt.Sprint(f.value.Interface())
	}
	return values
}
