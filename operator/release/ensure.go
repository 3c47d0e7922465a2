// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// wish is what is asked for.
type wish struct {
	// digest of chart and values, as the release carries it.
	digest string
	// try is a digest of all that decides whether a try is allowed: the grants, too.
	try string
}

func wishOf(a *delivery.Addon) (wish, error) {
	digest, err := digestOf(a)
	if err != nil {
		return wish{}, err
	}
	return wish{digest: digest, try: label(fmt.Sprintf("%s/%+v", digest, a.Target.Grants))}, nil
}

// Ensure brings a release to what the addon says. It does not wait: Helm's work is
// done in the background, and Changed is told when it has ended. Once what is wanted
// is deployed, drift of the release's objects is corrected. An error is one of the
// API server's, to be tried again soon.
func (m *Manager) Ensure(ctx context.Context, a *delivery.Addon) (*delivery.Release, error) {
	release, err := m.ensure(ctx, a)
	if problem := problemOf(err); problem != nil {
		return &delivery.Release{State: delivery.ReleaseFailed, Problem: problem}, nil //nolint:nilerr // it is what is wrong
	}
	return release, err
}

func (m *Manager) ensure(ctx context.Context, a *delivery.Addon) (*delivery.Release, error) {
	w, err := wishOf(a)
	if err != nil {
		return nil, err
	}
	if working := m.working(a, w); working != nil {
		return working, nil
	}
	r, err := newRights(ctx, m.config, a.Target.Namespace)
	if err != nil {
		return nil, err
	}
	newest, err := r.peek(ctx, releaseName(a))
	switch {
	case apierrors.IsForbidden(err):
		return &delivery.Release{State: delivery.ReleaseWorking, Problem: stack.Wait(kubenestv1.ReasonWaitingForNamespace,
			"ServiceAccount %s has no rights in namespace %s yet", kubenestv1.ProjectServiceAccount, a.Target.Namespace)}, nil
	case err != nil:
		return nil, err
	case newest != nil && newest.owner != label(a.Target.Owner):
		return &delivery.Release{State: delivery.ReleaseFailed, Problem: stack.Refuse(kubenestv1.ReasonObjectNotOurs,
			"Helm release %s in namespace %s exists and is not this App's: it is left alone. Uninstall it, or give the component another name",
			releaseName(a), a.Target.Namespace)}, nil
	case newest != nil && newest.status == common.StatusDeployed && newest.digest == w.digest:
		return m.keep(ctx, r, a, newest.version)
	}
	return m.advance(ctx, r, a, w)
}

// working is the state of a release that Helm works on, or nil. Work on something
// that is not wanted any more is ended early.
func (m *Manager) working(a *delivery.Addon, w wish) *delivery.Release {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateOf(keyOf(a))
	if s.job == nil {
		return nil
	}
	if s.job.digest != w.try {
		s.job.cancel(errSuperseded)
	}
	release := &delivery.Release{State: delivery.ReleaseWorking}
	switch {
	case s.job.objects != nil:
		release.Objects, release.Chart = s.job.objects, s.job.chart
	case s.deployed != nil:
		release.Objects, release.Chart = s.deployed.objects, s.deployed.chart
	}
	return release
}

// advance decides what to do about a release that is not as it is wanted.
func (m *Manager) advance(ctx context.Context, r *rights, a *delivery.Addon, w wish) (*delivery.Release, error) {
	h, err := readHistory(r.helm(m.log), releaseName(a))
	if err != nil {
		return nil, err
	}
	now := m.clock.Now()
	newest, failures := h.newest(), h.failures(w.digest)
	settled := newest == nil || newest.Info.Status == common.StatusDeployed || newest.Info.Status == common.StatusFailed
	if problem := m.failedBefore(a, w, now); problem != nil {
		return m.failed(ctx, r, a, h, problem)
	}
	if settled && len(failures) > 0 && !failures.due(now, helmBackoff) {
		problem := explain(a, h, failures)
		if m.mustRollBack(h, now) {
			m.begin(ctx, a, w.try, func(ctx context.Context) error { return m.rollBack(ctx, a) })
			return &delivery.Release{State: delivery.ReleaseWorking, Problem: problem}, nil
		}
		return m.failed(ctx, r, a, h, problem)
	}
	m.begin(ctx, a, w.try, func(ctx context.Context) error { return m.install(ctx, a, w) })
	return &delivery.Release{State: delivery.ReleaseWorking}, nil
}

// mustRollBack reports whether what a failed upgrade changed is still there.
func (m *Manager) mustRollBack(h history, now time.Time) bool {
	return h.newest().Info.Status != common.StatusDeployed && h.good() != nil && h.failedRollbacks().due(now, helmBackoff)
}

// failedBefore is why the last try did not get as far as Helm, until another is due.
func (m *Manager) failedBefore(a *delivery.Addon, w wish, now time.Time) *stack.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stateOf(keyOf(a))
	if s.failed == nil || s.digest != w.try || !now.Before(s.failedAt.Add(planBackoff.after(s.failures))) {
		return nil
	}
	return s.failed
}

// failed is the state of a release that could not be brought to what is wanted. What
// was deployed before is kept as it should be.
func (m *Manager) failed(ctx context.Context, r *rights, a *delivery.Addon, h history, problem *stack.Problem) (*delivery.Release, error) {
	release := &delivery.Release{State: delivery.ReleaseFailed, Problem: problem}
	newest := h.newest()
	if newest == nil {
		return release, nil
	}
	if newest.Info.Status == common.StatusDeployed {
		kept, err := m.keep(ctx, r, a, newest.Version)
		if err != nil {
			return nil, err
		}
		release.Objects, release.Chart, release.Drift = kept.Objects, kept.Chart, kept.Drift
		return release, nil
	}
	d, err := manifestOf(newest)
	if err != nil {
		return nil, err
	}
	release.Objects, release.Chart = d.objects, d.chart
	return release, nil
}

// explain says why Helm failed, from what it stored.
func explain(a *delivery.Addon, h, failures history) *stack.Problem {
	last := failures.newest()
	values, err := chart.Values(a.Component.AddonSpec)
	if err != nil {
		values = nil
	}
	next := last.Info.LastDeployed.Add(helmBackoff.after(len(failures))).UTC().Format("15:04 MST")
	what := "installed (it is left as it is, to be looked at)"
	switch {
	case h.newest().Info.Status == common.StatusDeployed:
		what = "upgraded (the revision before was brought back)"
	case h.good() != nil && len(h.failedRollbacks()) > 0:
		what = "upgraded (nor could the revision before be brought back)"
	case h.good() != nil:
		what = "upgraded (the revision before is being brought back)"
	}
	return stack.Refuse(kubenestv1.ReasonInstallFailed, "chart %s could not be %s: %s. It is tried again when its chart or values change, and at %s",
		titleOf(last), what, chart.Concealed(reason(last, a.Timeout), values), next)
}

// reason takes Helm's own frame off what it stored.
func reason(r *helmrelease.Release, timeout time.Duration) error {
	text := r.Info.Description
	for _, frame := range []string{"Release ", "Upgrade ", "Rollback "} {
		if strings.HasPrefix(text, frame) {
			if _, rest, ok := strings.Cut(text, "failed: "); ok {
				text = rest
			}
			break
		}
	}
	if before, ok := strings.CutSuffix(strings.TrimSpace(text), "context deadline exceeded"); ok {
		text = fmt.Sprintf("not ready within %s: %s", timeout, strings.TrimRight(before, "\n:; "))
	}
	return fmt.Errorf("%s", text)
}

// unexpected is the Problem of an error that is nobody's to mend.
func unexpected(err error) *stack.Problem {
	return stack.Refuse(kubenestv1.ReasonInstallFailed, "the release could not be worked on: %s. It is tried again", chart.Concealed(err, nil))
}
