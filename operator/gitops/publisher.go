// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// Options of a Publisher. The zero value of each is its default.
type Options struct {
	// Namespace of Argo CD, argocd unless set.
	Namespace string
	// Timeout is how long one exchange with a repository may take, a minute unless set.
	Timeout time.Duration
	// MaxFetch bounds in bytes what is read of a branch: its newest commit with its
	// folders, and its files where the server can not leave them out. 64 MiB unless set.
	MaxFetch int64
	// Fresh is how long it is taken for granted that nobody else wrote to a branch,
	// 15 s unless set.
	Fresh time.Duration
	// RemovalWait is how long a removal waits for Argo CD, and for a repository that
	// can not be reached, 10 minutes unless set.
	RemovalWait time.Duration
	// Local lets repositories be files of this machine. It is for tests.
	Local bool
	// Left is told what stays behind when a removal stops waiting; it may be nil.
	Left func(p *delivery.Publication, what string)
}

func (o *Options) setDefaults() {
	if o.Namespace == "" {
		o.Namespace = "argocd"
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.MaxFetch == 0 {
		o.MaxFetch = 64 << 20
	}
	if o.Fresh == 0 {
		o.Fresh = 15 * time.Second
	}
	if o.RemovalWait == 0 {
		o.RemovalWait = 10 * time.Minute
	}
	if o.Left == nil {
		o.Left = func(*delivery.Publication, string) {}
	}
}

// Publisher delivers through Git and Argo CD. It is safe for concurrent use.
type Publisher struct {
	options  Options
	api      client.Client
	branches branches
	failing  failing
}

// New makes a Publisher that keeps Argo CD's objects with a client. The client reads
// them from the API server rather than from a cache, which unstructured objects do
// with a manager's own client unless it is told otherwise.
func New(api client.Client, o Options) *Publisher {
	o.setDefaults()
	return &Publisher{options: o, api: api}
}

// Publish commits the objects where they are not there yet, keeps the Application,
// and says what Argo CD makes of it. What a person has to mend is the Sync's Problem;
// an error is about this cluster's API server, and is to be tried again.
func (p *Publisher) Publish(ctx context.Context, pub *delivery.Publication) (*delivery.Sync, error) {
	sync := &delivery.Sync{}
	err := p.publish(ctx, pub, sync)
	if problem, ok := errors.AsType[*stack.Problem](err); ok {
		sync.Synced, sync.Healthy, sync.Problem = false, false, problem
		return sync, nil
	}
	if err != nil {
		return nil, fmt.Errorf("publish %s: %w", pub.Stack, err)
	}
	return sync, nil
}

func (p *Publisher) publish(ctx context.Context, pub *delivery.Publication, sync *delivery.Sync) error {
	at, err := placeOf(pub, p.options.Local)
	if err != nil {
		return err
	}
	files, err := render(pub)
	if err != nil {
		return err
	}
	if err := p.checkInstalled(); err != nil {
		return err
	}
	if err := p.checkOwners(ctx, pub, at); err != nil { // before anything is committed
		return err
	}
	b := p.branches.of(at.key())
	if err := b.enter(ctx); err != nil {
		return err
	}
	held, err := p.commit(ctx, b, pub, at, files)
	if err != nil {
		b.leave()
		return err
	}
	sync.Commit = b.commit(held).String()
	b.leave()

	application, err := p.apply(ctx, pub, at)
	if err != nil {
		return err
	}
	// The turn is not kept while the API server is asked.
	if err := b.enter(ctx); err != nil {
		return err
	}
	newest, _ := b.newest()
	known := func(revision string) bool { return b.has(held, revision) }
	state := readState(application, at, known)
	told := held.refreshed == newest
	if !state.current {
		held.refreshed = newest
	}
	b.leave()
	if !state.current && !told {
		if err := p.refresh(ctx, application); err != nil {
			return err
		}
	}
	state.into(sync)
	return nil
}

// commit makes the folder hold the files. The caller has the turn.
func (p *Publisher) commit(ctx context.Context, b *branch, pub *delivery.Publication, at *place, files map[string][]byte) (*published, error) {
	sum := digest(files)
	held, same := b.holds(at.folder, sum)
	if same && time.Since(b.looked) < p.options.Fresh {
		return held, nil
	}
	r, err := p.options.open(at.url, pub.Credential)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if same { // somebody else may have pushed
		now, err := r.position(ctx, at.branch)
		if err != nil {
			return nil, p.options.problem(r, at, err)
		}
		if newest, _ := b.newest(); now == newest {
			b.looked = time.Now()
			return held, nil
		}
	}
	c := &change{
		at: at, files: files, owner: files[ownerFile], signature: signature(),
		message: fmt.Sprintf("%s/%s: generation %d\n\nApp %s of Project %s/%s, in namespace %s of cluster %s.",
			pub.Target.Project.Namespace, pub.Target.App, pub.Source.Generation,
			pub.Target.App, pub.Target.Project.Namespace, pub.Target.Project.Name, pub.Target.Namespace, at.clusterID),
	}
	changed, err := p.options.commit(ctx, r, b, c)
	if err != nil {
		return nil, err
	}
	return b.hold(at.folder, sum, changed), nil
}

// signature of all commits.
func signature() object.Signature {
	return object.Signature{Name: "kubenest-operator", Email: "operator@kubenest.io", When: time.Now().UTC()}
}
