// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	helmcommon "helm.sh/helm/v4/pkg/chart/common"

	"github.com/kubenest/kubenest/operator/stack"
)

// childCommand is the argument with which a program that renders charts is its own
// child.
const childCommand = "render-chart"

// Limits of a rendering's process.
const (
	// renderTimeout is how long it may take.
	renderTimeout = 20 * time.Second
	// renderMemory is how many bytes it may use.
	renderMemory = 512 << 20
	// renderData is where the kernel refuses more, should the watch be too slow. The
	// program itself takes some of it.
	renderData = renderMemory + 256<<20
	// watchEvery is how often its memory is looked at.
	watchEvery = 10 * time.Millisecond
	// maxJob is how many bytes it is asked with: a chart in base64, values, the names
	// of the cluster's APIs.
	maxJob = 2*MaxPacked + 8<<20
	// maxAnswer is how many bytes it answers with.
	maxAnswer = 2 * MaxRendered
	// maxParts is how many values, lists and objects it may answer with: each takes a
	// hundred times the memory of its text.
	maxParts = 400_000
)

// Exit codes of a rendering's process, beside those of Go itself.
const (
	exitAnswered = 0
	exitFailed   = 1
	exitMemory   = 3
)

// job is what the child is asked for.
type job struct {
	Packed    []byte
	Release   string
	Namespace string
	Revision  int
	Values    map[string]any

	KubeVersion helmcommon.KubeVersion
	APIVersions helmcommon.VersionSet
}

// answer is one or the other.
type answer struct {
	Problem   *stack.Problem
	Rendering *Rendering
}

// Child does the work of a child, if args, as os.Args has them, say that this process
// is one, and returns its exit code. A program that renders charts calls it before it
// does anything else, and ends with that code.
func Child(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (int, bool) {
	if !isChild(args) {
		return exitAnswered, false
	}
	restrict()
	if err := answerJob(ctx, stdin, stdout); err != nil {
		return exitFailed, true // its parent says what that means
	}
	return exitAnswered, true
}

func isChild(args []string) bool { return len(args) == 2 && args[1] == childCommand }

// restrict bounds this process. Templates can not be stopped, but processes can.
func restrict() {
	debug.SetMemoryLimit(renderMemory * 3 / 4) // from where garbage is collected harder
	limit := syscall.Rlimit{Cur: renderData, Max: renderData}
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)           // a sandbox may not know it, and the watch is enough
	time.AfterFunc(2*renderTimeout, func() { exit(exitFailed) }) // its parent has died
	go watch()
}

// exit ends a child.
func exit(code int) { os.Exit(code) } //nolint:revive // it is all that a child's watch is for

// watch ends the process when it uses too much memory.
func watch() {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(watchEvery) {
		metrics.Read(samples)
		if samples[0].Value.Uint64()-samples[1].Value.Uint64() > renderMemory {
			exit(exitMemory)
		}
	}
}

// answerJob answers one.
func answerJob(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var j job
	if err := json.NewDecoder(io.LimitReader(stdin, maxJob)).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	a := answer{}
	var err error
	a.Rendering, err = j.render(ctx)
	if problem, ok := errors.AsType[*stack.Problem](err); ok {
		a.Problem = problem
	} else if err != nil {
		return err
	}
	text, err := json.Marshal(&a)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if a.Rendering != nil && (len(text) > maxAnswer || parts(text) > maxParts) {
		text, err = json.Marshal(&answer{Problem: tooMuch(a.Rendering.Chart)})
		if err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
	}
	_, err = stdout.Write(text)
	return err
}

// parts counts the values, lists and objects in JSON.
func parts(text []byte) int {
	n := 0
	quoted, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = quoted
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}
