// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// maxText is how many bytes a template may make, in all and in between.
const maxText = 16 << 10

var errTooLong = fmt.Errorf("it makes over %d bytes", maxText)

// execute runs the template of an export. It always ends soon: there are no loops, and
// nothing grows.
func execute(e *kubenestv1.Export, values map[string]string, release, namespace string) (string, error) {
	t, err := template.New(e.Name).Option("missingkey=error").Funcs(functions()).Parse(e.Template)
	if err != nil {
		return "", failed("the template of export %s can not be read: %v", e.Name, err)
	}
	if len(t.Templates()) > 1 || loops(t.Root) {
		return "", failed("the template of export %s has range, define, block or template, which are not for exports", e.Name)
	}
	data := maps.Clone(values)
	data["release"], data["namespace"] = release, namespace
	out := &bounded{}
	if err := t.Execute(out, data); err != nil {
		return "", explain(e.Name, err)
	}
	return out.String(), nil
}

var missingKey = regexp.MustCompile(`map has no entry for key "([^"]*)"`)

// explain says why a template failed, without values: those of text/template may
// quote some.
func explain(name string, err error) error {
	if found := missingKey.FindStringSubmatch(err.Error()); found != nil {
		return failed("the template of export %s uses .%s, which is no export of this addon (those made by templates come in the order in which they are declared)", name, found[1])
	}
	if errors.Is(err, errTooLong) {
		return failed("the template of export %s fails: %v", name, errTooLong)
	}
	where := ""
	if at, ok := errors.AsType[template.ExecError](err); ok {
		parts := strings.SplitN(at.Error(), ": ", 3)
		if len(parts) > 1 {
			where = " at " + parts[1]
		}
	}
	return failed("the template of export %s fails%s: check the functions it calls", name, where)
}

// loops reports whether a template can repeat itself.
func loops(node parse.Node) bool {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return false
		}
		return slices.ContainsFunc(n.Nodes, loops)
	case *parse.IfNode:
		return loops(n.List) || loops(n.ElseList)
	case *parse.WithNode:
		return loops(n.List) || loops(n.ElseList)
	case *parse.RangeNode, *parse.TemplateNode:
		return true
	}
	return false
}

// functions replace those that make text, so that it can not be doubled for ever.
func functions() template.FuncMap {
	limit := func(text string) (string, error) {
		if len(text) > maxText {
			return "", errTooLong
		}
		return text, nil
	}
	return template.FuncMap{
		"print":    func(args ...any) (string, error) { return limit(fmt.Sprint(args...)) },
		"println":  func(args ...any) (string, error) { return limit(fmt.Sprintln(args...)) },
		"printf":   func(format string, args ...any) (string, error) { return limit(fmt.Sprintf(format, args...)) },
		"urlquery": func(args ...any) (string, error) { return limit(url.QueryEscape(fmt.Sprint(args...))) },
		"html":     func(args ...any) (string, error) { return limit(html.EscapeString(fmt.Sprint(args...))) },
		"js":       func(args ...any) (string, error) { return limit(template.JSEscapeString(fmt.Sprint(args...))) },
	}
}

// bounded takes so much text.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}
