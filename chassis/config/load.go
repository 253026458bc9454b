// Package config is the one way in which a process learns its settings: a struct with tags, read from the environment
// and from flags. A flag wins over the environment, the environment over the default.
//
//	type Config struct {
//		Kafka kafka.Config // nested structs keep their own keys
//		Rows  int `env:"PROJECTOR_ROWS" envDefault:"100000" help:"rows of one insert, at most"`
//	}
//
// An empty environment variable counts as unset. Lists are separated by commas. Durations need a unit ("10s"). Every
// key is also a flag (PROJECTOR_ROWS -> --projector-rows), except secrets: a flag shows in the list of processes.
//
// All problems are reported at once, each naming its key: values that do not parse, variables that nobody knows but
// that carry the service's own prefix or are a slip of the pen away from a known key, and whatever the Validate
// methods of the struct and of its nested structs return.
package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// annotation marks a flag that Bind made; its value is the environment variable.
const annotation = "hotledger_config_key"

// Error is every problem of one configuration. It exits with status 2, like a wrong flag.
type Error struct {
	Service  string
	Problems []string // each begins with the key it is about, sorted
}

// Error lists the problems, one per line.
func (e *Error) Error() string {
	return fmt.Sprintf("configuration of %s:\n  %s", e.Service, strings.Join(e.Problems, "\n  "))
}

// ExitCode is 2: the process was called wrongly and no retry will help.
func (*Error) ExitCode() int { return 2 }

// Load fills cfg (a pointer to a struct) from args (without the program's name) and environ (as os.Environ gives it).
// service is the process's name, such as "ledger-writer"; its own keys begin with LEDGER_WRITER_. The error is an
// *Error, or pflag.ErrHelp after --help was answered on standard error.
func Load(service string, cfg any, args, environ []string) error {
	flags := pflag.NewFlagSet(service, pflag.ContinueOnError)
	flags.SortFlags = false
	bind(flags, cfg)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return &Error{Service: service, Problems: []string{err.Error()}}
	}
	var extra []string
	for i := range flags.Args() { // by number: its text may be a secret that lost its flag
		extra = append(extra, fmt.Sprintf("argument %d: nothing reads arguments; flags begin with --", i+1))
	}
	return resolve(service, cfg, flags, known(flags, cfg), environ, extra)
}

// Bind declares a flag for every key of cfg on cmd and its sub-commands. Keys that cmd or a parent has already are
// shared, so nested commands may bind overlapping structs. Values arrive with Resolve.
func Bind(cmd *cobra.Command, cfg any) { bind(cmd.PersistentFlags(), cfg) }

// Resolve fills cfg (a pointer to a struct that was bound on cmd or on a parent) from the flags of the running cmd and
// from environ. Call it inside RunE. The error is an *Error.
func Resolve(cmd *cobra.Command, service string, cfg any, environ []string) error {
	keys := known(cmd.Flags(), cfg)
	// Another sub-command's variable is not a mistake: one environment serves the whole program.
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		maps.Copy(keys, known(c.PersistentFlags(), nil))
		for _, child := range c.Commands() {
			collect(child)
		}
	}
	collect(cmd.Root())
	return resolve(service, cfg, cmd.Flags(), keys, environ, nil)
}

// raw is a flag's text as the caller wrote it; it is parsed by Resolve, together with everything else, so that all
// problems can be told at once.
type raw struct{ text, kind string }

func (r *raw) String() string     { return r.text }
func (r *raw) Set(s string) error { r.text = s; return nil }
func (r *raw) Type() string       { return r.kind }

func bind(flags *pflag.FlagSet, cfg any) {
	for _, f := range fieldsOf(cfg) {
		if flags.Lookup(f.flag()) != nil {
			continue
		}
		flag := &pflag.Flag{
			Name:        f.flag(),
			Usage:       f.help + " [" + f.key + "]",
			Value:       &raw{text: f.fallback, kind: f.kind()},
			DefValue:    f.fallback,
			Annotations: map[string][]string{annotation: {f.key}},
		}
		if f.kind() == "bool" {
			flag.NoOptDefVal = "true"
		}
		if f.secret {
			// Known, so that the environment variable is not taken for a slip, but neither shown nor accepted.
			flag.Hidden = true
			flag.Value = secretFlag{}
		}
		flags.AddFlag(flag)
	}
}

// secretFlag swallows its value; resolve refuses it afterwards. An error from Set would be printed with the value.
type secretFlag struct{}

func (secretFlag) String() string   { return "" }
func (secretFlag) Set(string) error { return nil }
func (secretFlag) Type() string     { return "secret" }

func known(flags *pflag.FlagSet, cfg any) map[string]bool {
	keys := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) {
		for _, key := range f.Annotations[annotation] {
			keys[key] = true
		}
	})
	if cfg != nil {
		for _, key := range Keys(cfg) {
			keys[key] = true
		}
	}
	return keys
}

func resolve(service string, cfg any, flags *pflag.FlagSet, keys map[string]bool, environ, problems []string) error {
	values := map[string]string{}
	for _, entry := range environ {
		if key, value, ok := strings.Cut(entry, "="); ok {
			values[key] = value
		}
	}
	problems = append(problems, unknown(service, keys, values)...)
	for _, f := range fieldsOf(cfg) {
		if flag := flags.Lookup(f.flag()); flag != nil && flag.Changed {
			if f.secret {
				problems = append(problems, f.key+": a secret on the command line shows in the list of processes; set it in the environment")
			} else {
				values[f.key] = flag.Value.String()
			}
		}
		if err := f.set(values); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s", f.key, f.reason(err)))
			// The default stands in, so that Validate below does not complain about a zero that nobody wrote.
			if err := f.set(nil); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.key, err))
			}
		}
	}
	problems = append(problems, validate(reflect.ValueOf(cfg))...)
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return &Error{Service: service, Problems: slices.Compact(problems)}
}

// set parses the field's value. The field is parsed alone, in a struct of its own: so an error belongs to one key.
func (f field) set(values map[string]string) error {
	single := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Field", Type: f.spec.Type, Tag: f.spec.Tag,
	}}))
	if values == nil {
		values = map[string]string{"": ""} // the library would read the real environment for an empty map
	}
	err := env.ParseWithOptions(single.Interface(), env.Options{Environment: values, FuncMap: parsers})
	if err != nil {
		return err
	}
	f.value.Set(single.Elem().Field(0))
	return nil
}

var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[[]string](): func(s string) (any, error) {
		var list []string
		for i, part := range strings.Split(s, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				return nil, fmt.Errorf("item %d of the list is empty", i+1)
			}
			list = append(list, part)
		}
		return list, nil
	},
	reflect.TypeFor[time.Duration](): func(s string) (any, error) {
		d, err := time.ParseDuration(s)
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration; write a number and a unit, such as 250ms, 10s or 5m", s)
		}
		return d, nil
	},
}

// reason says what is wrong with the value, without the library's words, which name the Go field instead of the key.
func (f field) reason(err error) string {
	var parse env.ParseError
	if errors.As(err, &parse) {
		err = parse.Err // it does not unwrap by itself
	}
	var number *strconv.NumError
	switch {
	case errors.As(err, &number) && errors.Is(number, strconv.ErrRange):
		return fmt.Sprintf("%q is out of range", number.Num)
	case errors.As(err, &number):
		return fmt.Sprintf("%q is not of type %s", number.Num, f.kind())
	}
	return err.Error()
}

// validate calls Validate on v and on every struct in it, and splits joined errors.
func validate(v reflect.Value) []string {
	var problems []string
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	if checked, ok := v.Addr().Interface().(interface{ Validate() error }); ok {
		problems = append(problems, split(checked.Validate())...)
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			problems = append(problems, validate(v.Field(i))...)
		}
	}
	return problems
}

func split(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, split(e)...)
		}
		return all
	}
	return []string{err.Error()}
}
