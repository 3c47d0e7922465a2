// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/logs"
)

func request(change func(*wire.LogRequest)) wire.LogRequest {
	r := wire.LogRequest{Namespace: namespace, App: "shop", Component: "web"}
	if change != nil {
		change(&r)
	}
	return r
}

// open opens a stream until the test ends.
func (f *fixture) open(r wire.LogRequest) *logs.Stream {
	f.t.Helper()
	s, err := logs.Open(f.t.Context(), f.registry, clusterID, r)
	f.Expect(err).NotTo(HaveOccurred())
	f.t.Cleanup(func() { _ = s.Close() })
	return s
}

// lines reads n of them, or all if n is below zero, as "pod text".
func lines(g Gomega, s *logs.Stream, n int) (all []string, end *logs.End) {
	for n < 0 || len(all) < n {
		entry, err := s.Next()
		if errors.As(err, &end) {
			g.Expect(n).To(BeNumerically("<", 0), "%v after %v", err, all)
			return all, end
		}
		if entry.Note == "" {
			all = append(all, entry.Pod+" "+string(entry.Text))
		}
	}
	return all, nil
}

func TestLogsOfPods(t *testing.T) {
	f := newFixture(t)
	f.write("web-1", 1, "one", "two", "three")
	f.write("web-2", 1, "uno", "dos")
	f.pod("web-1")
	f.pod("web-2")

	t.Run("kubectl", func(t *testing.T) {
		g := NewWithT(t)
		out, err := exec.CommandContext(t.Context(), filepath.Join(assets(t), "kubectl"), "--kubeconfig", f.cluster.Kubeconfig(),
			"logs", "-n", namespace, "web-1", "--tail=2").CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		g.Expect(string(out)).To(Equal("two\nthree\n"))
	})
	t.Run("many pods, to the end", func(t *testing.T) {
		f := f.of(t)
		all, end := lines(f, f.open(request(nil)), -1)
		f.Expect(all).To(ConsistOf("web-1 one", "web-1 two", "web-1 three", "web-2 uno", "web-2 dos"))
		f.Expect(end.Reason).To(Equal(wire.ReasonComplete))
	})
	t.Run("tail, pod and limit", func(t *testing.T) {
		f := f.of(t)
		all, _ := lines(f, f.open(request(func(r *wire.LogRequest) { r.TailLines = new(int64(1)) })), -1)
		f.Expect(all).To(ConsistOf("web-1 three", "web-2 dos"))
		all, end := lines(f, f.open(request(func(r *wire.LogRequest) { r.Pod, r.LimitBytes = "web-1", 6 })), -1)
		f.Expect(all).To(Equal([]string{"web-1 one", "web-1 tw"}))
		f.Expect(end.Reason).To(Equal(wire.ReasonLimit))
	})
	t.Run("since a moment within a second", func(t *testing.T) {
		f := f.of(t)
		since := f.began.Add(2 * time.Millisecond)
		all, _ := lines(f, f.open(request(func(r *wire.LogRequest) { r.SinceTime = &since })), -1)
		f.Expect(all).To(ConsistOf("web-1 two", "web-1 three", "web-2 dos"))
	})
	t.Run("previous", func(t *testing.T) {
		f := f.of(t)
		all, _ := lines(f, f.open(request(func(r *wire.LogRequest) { r.Pod, r.Previous = "web-1", true })), -1)
		f.Expect(all).To(Equal([]string{"web-1 before"}))
	})
	t.Run("refusals", func(t *testing.T) {
		f := f.of(t)
		for want, change := range map[string]func(*wire.LogRequest){
			"not made for a Project": func(r *wire.LogRequest) { r.Namespace = "kube-system" },
			"is not there":           func(r *wire.LogRequest) { r.Namespace = "nowhere" },
			"There are no pods":      func(r *wire.LogRequest) { r.Component = "worker" },
			"Pod shop/other":         func(r *wire.LogRequest) { r.Pod = "other" },
			"they have [app]":        func(r *wire.LogRequest) { r.Container = "sidecar" },
			"exclude each other":     func(r *wire.LogRequest) { r.Follow, r.Previous = true, true },
		} {
			_, err := logs.Open(t.Context(), f.registry, clusterID, request(change))
			f.Expect(err).To(MatchError(ContainSubstring(want)))
		}
	})
	t.Run("follow, resume, and pods that come and go", f.follow)
	t.Run("a reader that stops", f.stopReading)
}

func (f *fixture) follow(t *testing.T) {
	f = f.of(t)
	s := f.open(request(func(r *wire.LogRequest) { r.Follow, r.TailLines = true, new(int64(1)) }))
	first, _ := lines(f, s, 2)
	f.Expect(first).To(ConsistOf("web-1 three", "web-2 dos"))
	f.append("web-1", 10, "four", strings.Repeat("long", 40_000))
	entry, err := s.Next()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(string(entry.Text)).To(Equal("four"))
	f.Expect(entry.Time).To(BeTemporally("==", f.began.Add(10*time.Millisecond)))
	long := ""
	for more := true; more; {
		entry, err = s.Next()
		f.Expect(err).NotTo(HaveOccurred())
		long, more = long+string(entry.Text), entry.More
	}
	f.Expect(long).To(Equal(strings.Repeat("long", 40_000)), "a line of 160 KB is no problem")

	f.write("web-3", 20, "tres")
	f.pod("web-3")
	third, _ := lines(f, s, 1)
	f.Expect(third).To(Equal([]string{"web-3 tres"}))

	// The session ends, and the next stream goes on where this one stopped.
	info, _ := f.registry.Lookup(clusterID)
	f.append("web-2", 30, "tres")
	f.append("web-1", 30, "five")
	f.registry.Close(clusterID, info.SessionID, wire.EndMoving, "")
	got, end := lines(f, s, -1)
	f.Expect(end.Resumable()).To(BeTrue(), "%v", end)
	f.Eventually(func() string { info, _ := f.registry.Lookup(clusterID); return info.SessionID }).
		WithTimeout(time.Minute).ShouldNot(Or(BeEmpty(), Equal(info.SessionID)))
	again := f.open(s.Resume())
	for !slices.Contains(got, "web-1 five") || !slices.Contains(got, "web-2 tres") {
		more, _ := lines(f, again, 1)
		got = append(got, more...)
	}
	f.Expect(got).To(ConsistOf("web-1 five", "web-2 tres"), "nothing is lost, nothing comes again")

	f.delete("web-3")
	for {
		entry, err := again.Next()
		f.Expect(err).NotTo(HaveOccurred())
		if entry.Note != "" {
			f.Expect(entry.Pod + ": " + entry.Note).To(Equal("web-3: The pod is gone."))
			break
		}
	}
	f.Expect(again.Close()).To(Succeed())
	_, err = again.Next()
	f.Expect(err).To(HaveField("Reason", logs.ReasonClosed))
	f.Eventually(func() float64 { return f.gauge("kubenest_operator_streams") }).WithTimeout(30*time.Second).Should(BeZero(), "the operator stops")
}

func (f *fixture) stopReading(t *testing.T) {
	f = f.of(t)
	var flood []string
	for i := range 50_000 {
		flood = append(flood, fmt.Sprintf("%d %s", i, strings.Repeat("x", 100)))
	}
	f.append("web-2", 40, flood...)
	stuck := f.open(request(func(r *wire.LogRequest) { r.Pod, r.Follow = "web-2", true }))
	entry, err := stuck.Next()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(entry.Pod).To(Equal("web-2"))
	info, _ := f.registry.Lookup(clusterID)
	heard := time.Now()
	f.Eventually(func() bool { // two heartbeats
		now, ok := f.registry.Lookup(clusterID)
		f.Expect(ok && now.SessionID == info.SessionID).To(BeTrue(), "the session goes on")
		return now.LastHeard.After(heard.Add(2 * timing.Heartbeat))
	}).WithTimeout(30 * time.Second).Should(BeTrue())
	other, _ := lines(f, f.open(request(func(r *wire.LogRequest) { r.Pod, r.TailLines = "web-1", new(int64(1)) })), -1)
	f.Expect(other).To(HaveLen(1), "other streams go on")
	last := ""
	for !strings.HasPrefix(last, "49999 ") {
		entry, err := stuck.Next()
		f.Expect(err).NotTo(HaveOccurred(), "after %.20s", last)
		if !entry.More {
			last = string(entry.Text)
		}
	}
	f.Expect(stuck.Close()).To(Succeed())
	f.Eventually(func() float64 { return f.gauge("kubenest_hub_streams") + f.gauge("kubenest_operator_streams") }).
		WithTimeout(30 * time.Second).Should(BeZero())
}

func (f *fixture) write(pod string, millis int, texts ...string) {
	f.Expect(os.WriteFile(f.file(pod), nil, 0o600)).To(Succeed())
	f.append(pod, millis, texts...)
}

// append lines in the format of container runtimes, a millisecond apart.
func (f *fixture) append(pod string, millis int, texts ...string) {
	f.t.Helper()
	file, err := os.OpenFile(f.file(pod), os.O_APPEND|os.O_WRONLY, 0o600)
	f.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	var b strings.Builder
	for i, text := range texts {
		at := f.began.Add(time.Duration(millis+i) * time.Millisecond)
		fmt.Fprintf(&b, "%s stdout F %s\n", at.Format("2006-01-02T15:04:05.000000000Z07:00"), text)
	}
	_, err = file.WriteString(b.String())
	f.Expect(err).NotTo(HaveOccurred())
}

func (f *fixture) file(pod string) string { return filepath.Join(f.dir, pod+".log") }

func assets(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin", "k8s")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func withoutCancel(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
