// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// maxWords is how long a chart's own words in a message may be.
const maxWords = 600

// shortestSecret is how long a value has to be to be hidden: shorter ones are in
// every sentence.
const shortestSecret = 4

// Concealed is an error's text on one line, without the values that were given to
// the chart: templates like to repeat what they do not like.
func Concealed(err error, values map[string]any) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var secrets []string
	collect(values, &secrets)
	// Long ones first: one may be in another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "…")
	}
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}

func collect(value any, out *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for _, each := range v {
			collect(each, out)
		}
	case []any:
		for _, each := range v {
			collect(each, out)
		}
	case string:
		if text := strings.Join(strings.Fields(v), " "); len(text) >= shortestSecret {
			*out = append(*out, text)
		}
	case float64:
		if text := fmt.Sprint(v); len(text) >= shortestSecret {
			*out = append(*out, text)
		}
	}
}

var line = regexp.MustCompile(`line \d+`)

// lineOf is the line in an error of the YAML parser, whose words may repeat values.
func lineOf(err error) string {
	if found := line.FindString(err.Error()); found != "" {
		return " (" + found + " of what it makes)"
	}
	return ""
}

// Values reads the values of a component. Numbers become float64, as Helm has them.
func Values(spec *kubenestv1.AddonSpec) (map[string]any, error) {
	values := map[string]any{}
	if spec.Values == nil || len(spec.Values.Raw) == 0 {
		return values, nil
	}
	if err := json.Unmarshal(spec.Values.Raw, &values); err != nil {
		return nil, invalid("addonSpec.values are no object")
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// CopyValues makes a copy that a chart may change.
func CopyValues(values map[string]any) (map[string]any, error) {
	out := map[string]any{}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("copy values: %w", err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("copy values: %w", err)
	}
	if out == nil {
		out = map[string]any{}
	}
	return out, nil
}

// Limits of what one call of a template function may make.
const (
	maxCount = 100_000
	maxText  = 1 << 20
)

// functions replace the template functions that make much out of a small argument,
// with which one line of a chart could take all memory.
func functions() template.FuncMap {
	all := sprig.TxtFuncMap()
	bounded := template.FuncMap{}
	for _, name := range []string{"randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes"} {
		if f, ok := all[name].(func(int) string); ok {
			bounded[name] = func(n int) (string, error) {
				if n > maxText {
					return "", fmt.Errorf("%s of over %d characters", name, maxText)
				}
				return f(n), nil
			}
		}
	}
	bounded["repeat"] = func(n int, text string) (string, error) {
		if n > 0 && len(text) > 0 && n > maxText/len(text) {
			return "", fmt.Errorf("repeat makes over %d characters", maxText)
		}
		return strings.Repeat(text, max(n, 0)), nil
	}
	bounded["until"] = func(n int) ([]int, error) { return steps(0, n, map[bool]int{true: -1, false: 1}[n < 0]) }
	bounded["untilStep"] = steps
	return bounded
}

func steps(from, to, by int) ([]int, error) {
	if by == 0 || (to > from) != (by > 0) {
		return []int{}, nil
	}
	if math.Abs(float64(to-from)/float64(by)) > maxCount {
		return nil, fmt.Errorf("a range of over %d numbers", maxCount)
	}
	var numbers []int
	for n := from; (by > 0 && n < to) || (by < 0 && n > to); n += by {
		numbers = append(numbers, n)
	}
	return numbers, nil
}
