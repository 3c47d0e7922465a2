// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/agent"
	"github.com/kubenest/kubenest/operator/agent/agenttest"
	"github.com/kubenest/kubenest/operator/credentials"
)

const (
	namespace = "kubenest-system"
	patience  = 20 * time.Second
)

// mount is a mounted Secret, which kubelet changes by swapping a symlink.
type mount struct {
	directory string
	version   int
}

func newMount(tb testing.TB, keys map[string]string) *mount {
	tb.Helper()
	m := &mount{directory: tb.TempDir()}
	m.swap(tb, keys)
	return m
}

func (m *mount) swap(tb testing.TB, keys map[string]string) {
	tb.Helper()
	g := NewWithT(tb)
	m.version++
	data := "..v" + strconv.Itoa(m.version)
	g.Expect(os.Mkdir(filepath.Join(m.directory, data), 0o755)).To(Succeed())
	for key, value := range keys {
		g.Expect(os.WriteFile(filepath.Join(m.directory, data, key), []byte(value), 0o600)).To(Succeed())
		_ = os.Symlink(filepath.Join("..data", key), filepath.Join(m.directory, key))
	}
	g.Expect(os.Symlink(data, filepath.Join(m.directory, "..data_tmp"))).To(Succeed())
	g.Expect(os.Rename(filepath.Join(m.directory, "..data_tmp"), filepath.Join(m.directory, "..data"))).To(Succeed())
}

func connection(tb testing.TB, claims agenttest.Claims) map[string]string {
	tb.Helper()
	return map[string]string{
		"token": agenttest.Token(tb, claims) + "\n", "cluster-id": agenttest.ClusterID, "hub-url": "https://hub.test",
	}
}

// run watches until the test ends.
func run(t *testing.T, m *credentials.Mounted) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
}

func newMounted(directory string) *credentials.Mounted {
	return credentials.NewMounted(directory, fake.NewClientset().CoreV1(), namespace, logr.Discard())
}

func TestASwappedSecretIsNoticed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := newMount(t, connection(t, agenttest.Claims{Generation: 1}))
	m := newMounted(files.directory)
	identity, err := m.Load(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.Tokens).To(HaveLen(1))
	g.Expect(identity.Authorities).To(Equal(agent.Authorities{""}), "public ones")
	run(t, m)
	g.Consistently(m.Changed(), "100ms").ShouldNot(Receive(), "it was read already")

	changed := connection(t, agenttest.Claims{Generation: 2})
	changed["hub-url"] = "https://other.test\n"
	files.swap(t, changed)
	g.Eventually(m.Changed()).WithTimeout(patience).Should(Receive())
	identity, err = m.Load(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(identity.HubURL).To(Equal("https://other.test"))
	g.Expect(identity.Tokens[0].Generation).To(BeEquivalentTo(2))

	files.swap(t, changed)
	g.Consistently(m.Changed(), "100ms").ShouldNot(Receive(), "nothing is different")
}

func TestASecretThatComesLaterIsNoticed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	files := &mount{directory: t.TempDir()}
	m := newMounted(files.directory)
	_, err := m.Load(t.Context())
	g.Expect(err).To(MatchError(And(ContainSubstring("token"), ContainSubstring("connection Secret"))))
	run(t, m)
	files.swap(t, connection(t, agenttest.Claims{Generation: 1}))
	g.Eventually(m.Changed()).WithTimeout(patience).Should(Receive())
	g.Expect(m.Load(t.Context())).Error().NotTo(HaveOccurred())
}

func TestWhatIsWrongWithTheFilesIsSaid(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		key, value string
		want       string
	}{
		"an empty token":          {"token", " \n", "is empty"},
		"half a token":            {"token", "eyJhbGciOiJFZERTQSJ9.eyJpc3Mi", "not a JSON Web Token"},
		"an empty URL":            {"hub-url", "", "hub-url is empty"},
		"a token of another":      {"cluster-id", "another", `is for cluster "` + agenttest.ClusterID + `"`},
		"no id":                   {"cluster-id", "", "cluster-id is empty"},
		"a token in quotes":       {"token", `"abc"`, "copy the whole value"},
		"a token that is no JSON": {"token", "YQ.YQ.YQ", "not a JSON Web Token"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			keys := maps.Clone(connection(t, agenttest.Claims{Generation: 1}))
			keys[tc.key] = tc.value
			_, err := newMounted(newMount(t, keys).directory).Load(t.Context())
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("eyJ"))
		})
	}
}

// TestANewSecretIsUsedAtOnce is the whole way: a refused operator waits for a
// minute, and dials within moments of the user's "helm upgrade".
func TestANewSecretIsUsedAtOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hub := agenttest.Start(t, nil, nil)
	hub.Answer(wire.Refuse(wire.ClassRevoked, "below the floor").After(10 * time.Minute))
	keys := connection(t, agenttest.Claims{Generation: 1})
	keys["hub-url"], keys["ca.crt"] = hub.URL, hub.CA
	files := newMount(t, keys)
	m := newMounted(files.directory)
	run(t, m)
	a, err := agent.New(agent.Options{Credentials: m, ClusterUID: "uid", Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	g.Eventually(hub.Attempts).WithTimeout(patience).Should(Receive())

	hub.Answer(nil)
	keys["token"] = agenttest.Token(t, agenttest.Claims{Generation: 2})
	files.swap(t, keys)
	var s *agenttest.Session
	g.Eventually(hub.Sessions).WithTimeout(patience).Should(Receive(&s))
	g.Expect(s.Attempt.Token).To(Equal(keys["token"]))
	cancel()
	g.Expect(<-done).To(Succeed())
}
