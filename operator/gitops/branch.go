// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// branches are those that this process writes to. Publications to one of them wait
// for each other.
type branches struct {
	mu    sync.Mutex
	known map[string]*branch
}

// branch remembers what was seen of a branch, so that an App that has not changed
// costs nothing, and Argo CD's revision can be judged without the history.
type branch struct {
	// turn is held by one publication at a time.
	turn chan struct{}

	// What follows belongs to who has the turn.

	// heads are the newest commits that were seen at the branch's end, oldest first.
	// dropped is how many were forgotten before them.
	heads   []plumbing.Hash
	dropped int
	// looked is when the branch's end was asked for last.
	looked  time.Time
	folders map[string]*published
}

// published is what a folder holds, and at which heads of the branch that was seen.
type published struct {
	digest [sha256.Size]byte
	// seen are spans of heads, oldest first. Between them are heads of others, at which
	// nobody looked.
	seen []span
	// refreshed is the head that Argo CD was told of last.
	refreshed plumbing.Hash
}

// span is a range of heads, counted from the first head ever seen.
type span struct{ first, last int }

// maxSpans bounds the memory of one folder.
const maxSpans = 16

// maxHeads bounds the memory. Argo CD looks every three minutes by itself.
const maxHeads = 512

func (b *branches) of(key string) *branch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]*branch{}
	}
	known := b.known[key]
	if known == nil {
		known = &branch{turn: make(chan struct{}, 1), folders: map[string]*published{}}
		b.known[key] = known
	}
	return known
}

// enter waits for the turn.
func (b *branch) enter(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *branch) leave() { <-b.turn }

// newest is the last head that was seen, and its number.
func (b *branch) newest() (plumbing.Hash, int) {
	if len(b.heads) == 0 {
		return plumbing.ZeroHash, -1
	}
	return b.heads[len(b.heads)-1], b.dropped + len(b.heads) - 1
}

// see takes up a head of the branch. A commit of this process on top of the newest
// head leaves all other folders as they were.
func (b *branch) see(head, parent plumbing.Hash) {
	newest, number := b.newest()
	if head == newest || head.IsZero() {
		return
	}
	b.heads = append(b.heads, head)
	if over := len(b.heads) - maxHeads; over > 0 {
		b.heads, b.dropped = slices.Delete(b.heads, 0, over), b.dropped+over
	}
	if parent.IsZero() || parent != newest {
		return
	}
	for _, folder := range b.folders {
		if last := &folder.seen[len(folder.seen)-1]; last.last == number {
			last.last++
		}
	}
}

// hold notes that at the newest head the folder holds what has the digest. Where it had
// to be changed for that, it held something else at the head before.
func (b *branch) hold(folder string, digest [sha256.Size]byte, changed bool) *published {
	_, number := b.newest()
	p := b.folders[folder]
	if p == nil || p.digest != digest || changed {
		p = &published{digest: digest, seen: []span{{number, number}}}
		b.folders[folder] = p
		return p
	}
	if last := p.seen[len(p.seen)-1]; last.last != number {
		p.seen = append(p.seen, span{number, number})
		p.seen = p.seen[max(len(p.seen)-maxSpans, 0):]
	}
	return p
}

// holds says whether that is known to be so at the newest head.
func (b *branch) holds(folder string, digest [sha256.Size]byte) (*published, bool) {
	_, number := b.newest()
	p := b.folders[folder]
	return p, p != nil && p.digest == digest && p.seen[len(p.seen)-1].last == number
}

// has says whether a revision is one at which the folder held the same.
func (b *branch) has(p *published, revision string) bool {
	i := slices.Index(b.heads, plumbing.NewHash(revision))
	return i >= 0 && slices.ContainsFunc(p.seen, func(s span) bool {
		return b.dropped+i >= s.first && b.dropped+i <= s.last
	})
}

// commit is the first known one that has what the folder holds.
func (b *branch) commit(p *published) plumbing.Hash {
	if len(b.heads) == 0 {
		return plumbing.ZeroHash
	}
	return b.heads[max(p.seen[0].first-b.dropped, 0)]
}
