// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
)

func TestRegistryClose(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		first := f.connect(cluster)
		second := f.connect(cluster)
		other := f.connect("cluster-2")
		f.Expect(f.registry.Close(cluster, first.Welcome.Session, wire.EndRevoked, "")).To(BeFalse(), "it has gone")
		f.Expect(f.registry.Close(cluster, other.Welcome.Session, wire.EndRevoked, "")).To(BeFalse(), "it is another cluster's")
		f.Expect(f.registry.Close("cluster-3", second.Welcome.Session, wire.EndRevoked, "")).To(BeFalse())
		synctest.Wait()
		f.Expect(f.registry.Len()).To(Equal(2))

		f.Expect(f.registry.Close(cluster, second.Welcome.Session, wire.EndRevoked, "the floor was raised")).To(BeTrue())
		ended := second.End()
		f.Expect(ended.Ending).To(Equal(wire.EndRevoked))
		f.Expect(ended.Text).To(Equal("the floor was raised"))
		f.Expect(f.wantEndOf(cluster).Message).To(Equal("the floor was raised"))
		f.Expect(other.Ended()).To(BeEmpty())
	})
}

func TestRegistryRemembersTheLastEnd(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		_, known := f.registry.LastEnd(cluster)
		f.Expect(known).To(BeFalse())
		o := f.connect(cluster)
		o.Close(wire.EndGoodbye, "")
		f.Expect(f.wantEndOf(cluster).SessionID).To(Equal(o.Welcome.Session))

		f.registry.Forget(cluster, "another session")
		f.Expect(f.wantEndOf(cluster).SessionID).To(Equal(o.Welcome.Session))
		f.registry.Forget(cluster, o.Welcome.Session)
		_, known = f.registry.LastEnd(cluster)
		f.Expect(known).To(BeFalse())

		f.connect(cluster).Close(wire.EndGoodbye, "")
		f.wantEndOf(cluster)
		f.connect(cluster)
		_, known = f.registry.LastEnd(cluster)
		f.Expect(known).To(BeFalse(), "the next session has opened")
	})
}

func TestUnsubscribe(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		var mine events
		cancel := f.registry.Subscribe(mine.add)
		o := f.connect(cluster)
		f.Expect(mine.kinds()).To(Equal([]string{"opened cluster-1"}))
		cancel()
		cancel()
		o.Close(wire.EndGoodbye, "")
		f.Expect(mine.kinds()).To(BeEmpty())
		f.Expect(f.events.kinds()).To(Equal([]string{"opened cluster-1", "closed cluster-1"}), "the others still hear")
	})
}

func TestSubscriberMayAskTheRegistry(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		held := make(chan bool, 2)
		f.registry.Subscribe(func(e session.Event) {
			_, ok := f.registry.Lookup(e.ClusterID)
			_ = f.registry.Snapshot()
			held <- ok
		})
		f.connect(cluster).Close(wire.EndGoodbye, "")
		f.Expect(<-held).To(BeTrue(), "a session is held when it is told to have opened")
		f.Expect(<-held).To(BeFalse(), "and is not when it is told to have closed")
	})
}
