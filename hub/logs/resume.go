// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"cmp"
	"slices"
	"time"

	"github.com/kubenest/kubenest/api/wire"
)

// Resume is the request that goes on where this stream stopped, without a line lost
// or sent again; of a line of which a part came, all comes again. Of more than
// wire.MaxLogSources containers it knows those that wrote last.
func (s *Stream) Resume() wire.LogRequest {
	request := s.request
	request.Resume = nil
	// Containers that have sent nothing yet may have begun after the stream did.
	switch tail := request.TailLines; {
	case request.SinceSeconds != nil:
		request.SinceTime = new(s.opened.Add(-time.Duration(*request.SinceSeconds) * time.Second))
		request.SinceSeconds = nil
	case tail != nil && *tail == 0 && request.SinceTime == nil:
		request.SinceTime = &s.opened
	}
	request.TailLines = nil
	if request.LimitBytes > 0 {
		request.LimitBytes = max(1, request.LimitBytes-s.bytes)
	}
	for name, o := range s.byName {
		if o.position.Time.IsZero() {
			continue
		}
		position := o.position
		position.Pod, position.Container = name[0], name[1]
		request.Resume = append(request.Resume, position)
	}
	slices.SortFunc(request.Resume, func(a, b wire.LogPosition) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	request.Resume = request.Resume[:min(len(request.Resume), wire.MaxLogSources)]
	return request
}
