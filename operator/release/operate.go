// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/chart"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

// interrupted is the digest of a revision whose operator died: nobody asked for it.
const interrupted = "interrupted"

// operation is Helm at work on one release.
type operation struct {
	*Manager
	addon  *delivery.Addon
	rights *rights
	helm   *action.Configuration
	name   string
}

// operate does something with Helm. When the operator stops all calls fail at once,
// so that the release stays as if it had been killed; when something else is wanted,
// or at the timeout, waiting ends and Helm records what happened. While it waits, others
// have its turn.
func (m *Manager) operate(ctx context.Context, a *delivery.Addon, do func(context.Context, *operation) error) error {
	t := &turn{slots: m.busy, key: a.Target.Namespace}
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.end()
	alive, kill := context.WithTimeoutCause(context.WithoutCancel(ctx), 2*a.Timeout+grace, context.DeadlineExceeded)
	defer kill()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errStopping) {
			kill()
		}
	})
	defer stop()
	r, err := newRights(alive, m.config, a.Target.Namespace)
	if err != nil {
		return err
	}
	o := &operation{Manager: m, addon: a, rights: r, helm: r.helm(m.log), name: releaseName(a)}
	if c, ok := o.helm.KubeClient.(*kube.Client); ok {
		o.helm.KubeClient = yielding(alive, c, t)
	}
	err = do(ctx, o)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// install installs or upgrades, and rolls back what fails.
func (m *Manager) install(ctx context.Context, a *delivery.Addon, w wish) error {
	return m.operate(ctx, a, func(ctx context.Context, o *operation) error {
		h, err := readHistory(o.helm, o.name)
		if err != nil {
			return err
		}
		if h, err = o.recover(ctx, h); err != nil {
			return err
		}
		revision := 1
		if len(h) > 0 {
			revision = h[0].Version + 1
		}
		p, err := m.plan(ctx, o.rights, a, revision)
		if err != nil {
			return err
		}
		m.planned(a, p)
		o.helm.Capabilities = p.capabilities
		if err := o.run(ctx, p, w, revision); err != nil {
			return o.failed(ctx, p, revision, err)
		}
		return o.prune(ctx, p, h)
	})
}

// planned keeps what is about to be applied, for its health to be seen.
func (m *Manager) planned(a *delivery.Addon, p *plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.stateOf(keyOf(a)); s.job != nil {
		s.job.objects, s.job.chart = p.objects(), p.rendering.Chart
	}
}

// run has Helm install or upgrade, and wait until everything is ready.
func (o *operation) run(ctx context.Context, p *plan, w wish, revision int) error {
	values, err := chart.CopyValues(p.values)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, o.addon.Timeout)
	defer cancel()
	labels := map[string]string{digestLabel: w.digest, ownerLabel: label(o.addon.Target.Owner)}
	maps.Copy(labels, o.addon.Target.Labels(o.addon.Component.Name))
	description := fmt.Sprintf("App %s, revision %d", o.addon.Target.App, o.addon.Revision)
	// Helm would go on in the background if its context ended; its calls end instead.
	ctx = context.WithoutCancel(ctx)
	if revision == 1 {
		i := action.NewInstall(o.helm)
		i.ReleaseName, i.Namespace, i.Labels, i.Description = o.name, o.addon.Target.Namespace, labels, description
		i.PostRenderer, i.TakeOwnership, i.ForceConflicts = p, true, true // plan has looked whose the objects are
		i.Timeout, i.WaitStrategy, i.WaitOptions = o.addon.Timeout, kube.StatusWatcherStrategy, waitOptions(waiting)
		_, err = i.RunWithContext(ctx, p.chart, values)
		return err
	}
	u := action.NewUpgrade(o.helm)
	u.Namespace, u.Labels, u.Description, u.MaxHistory = o.addon.Target.Namespace, labels, description, maxHistory
	u.PostRenderer, u.TakeOwnership, u.ForceConflicts, u.ServerSideApply, u.ResetValues = p, true, true, "true", true
	u.Timeout, u.WaitStrategy, u.WaitOptions = o.addon.Timeout, kube.StatusWatcherStrategy, waitOptions(waiting)
	_, err = u.RunWithContext(ctx, o.name, p.chart, values)
	return err
}

func waitOptions(ctx context.Context) []kube.WaitOption {
	return []kube.WaitOption{kube.WithWaitContext(ctx)}
}

// failed rolls a failed upgrade back. What Helm has stored of a failure is not
// returned: it is read from there.
func (o *operation) failed(ctx context.Context, p *plan, revision int, cause error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := readHistory(o.helm, o.name)
	if err != nil {
		return err
	}
	newest := h.newest()
	if newest == nil || newest.Version != revision || newest.Info.Status != common.StatusFailed {
		return stack.Refuse(kubenestv1.ReasonInstallFailed, "chart %s could not be installed: %s. It is tried again later",
			p.rendering.Chart, chart.Concealed(cause, p.values))
	}
	if h.good() == nil {
		return nil
	}
	return o.rollBack(ctx, h)
}

// rollBack brings back the last good revision, of which an upgrade has left something
// else.
func (m *Manager) rollBack(ctx context.Context, a *delivery.Addon) error {
	return m.operate(ctx, a, func(ctx context.Context, o *operation) error {
		h, err := readHistory(o.helm, o.name)
		if err != nil {
			return err
		}
		if h.good() == nil || h.newest().Info.Status == common.StatusDeployed {
			return nil
		}
		return o.rollBack(ctx, h)
	})
}

func (o *operation) rollBack(ctx context.Context, h history) error {
	waiting, cancel := context.WithTimeout(ctx, o.addon.Timeout)
	defer cancel()
	rb := action.NewRollback(o.helm)
	rb.Version, rb.MaxHistory = h.good().Version, maxHistory
	rb.ForceConflicts, rb.ServerSideApply = true, "true"
	rb.Timeout, rb.WaitStrategy, rb.WaitOptions = o.addon.Timeout, kube.StatusWatcherStrategy, waitOptions(waiting)
	if err := rb.Run(o.name); err != nil {
		after, readErr := readHistory(o.helm, o.name)
		if readErr == nil && after.newest().Version > h.newest().Version && after.newest().Info.Status.IsPending() {
			// A hook failed, which Helm does not record.
			after.newest().SetStatus(common.StatusFailed, fmt.Sprintf("Rollback %q failed: %s", o.name, err))
			return o.helm.Releases.Update(after.newest())
		}
		return readErr // a failure is stored
	}
	return nil
}

// recover puts a release that was left in the middle of something into a state that
// Helm goes on from.
func (o *operation) recover(ctx context.Context, h history) (history, error) {
	newest := h.newest()
	if newest == nil {
		return h, nil
	}
	switch newest.Info.Status {
	case common.StatusPendingRollback:
		// The failed upgrade below it says that a rollback is due.
		return h[1:], o.forget(newest)
	case common.StatusUninstalling, common.StatusUninstalled:
		_, err := o.uninstall(ctx)
		return nil, err
	case common.StatusPendingInstall, common.StatusPendingUpgrade:
		newest.SetStatus(common.StatusFailed, "the operator ended in the middle of it")
		newest.Labels[digestLabel] = interrupted
		if err := o.helm.Releases.Update(newest); err != nil {
			return nil, fmt.Errorf("mark release %s as interrupted: %w", o.name, err)
		}
	default:
	}
	if h.good() != nil {
		return h, nil
	}
	exists, err := o.anything(ctx, newest)
	if err != nil || exists {
		return h, err
	}
	// Nothing was made: hooks that run before an install shall run again.
	return nil, o.forget(h...)
}

func (o *operation) forget(revisions ...*helmrelease.Release) error {
	for _, r := range revisions {
		if _, err := o.helm.Releases.Delete(r.Name, r.Version); err != nil {
			return fmt.Errorf("remove revision %d of release %s: %w", r.Version, r.Name, err)
		}
	}
	return nil
}

// anything reports whether an object of a revision exists.
func (o *operation) anything(ctx context.Context, r *helmrelease.Release) (bool, error) {
	d, err := manifestOf(r)
	if err != nil {
		return false, err
	}
	for _, object := range d.objects {
		_, err := o.rights.get(ctx, o.mapper, object)
		switch {
		case err == nil:
			return true, nil
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			return false, fmt.Errorf("look up %s: %w", describe(object), err)
		}
	}
	return false, nil
}

// prune deletes what revisions that failed have made, and the new one does not have:
// Helm compares with the last good one only.
func (o *operation) prune(ctx context.Context, p *plan, h history) error {
	wanted := map[string]bool{}
	for _, object := range p.all() {
		wanted[chart.Key(object)] = true
	}
	for _, r := range h {
		if r.Info.Status != common.StatusFailed {
			break
		}
		d, err := manifestOf(r)
		if err != nil {
			return err
		}
		for _, object := range d.objects {
			if wanted[chart.Key(object)] || object.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
				continue
			}
			live, err := o.rights.get(ctx, o.mapper, object)
			if err != nil || !o.addon.Target.Owns(live) || live.GetAnnotations()["meta.helm.sh/release-name"] != o.name {
				continue // gone, or not of this release
			}
			client, err := o.rights.resource(o.mapper, object)
			if err != nil {
				continue
			}
			uid := live.GetUID()
			err = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{
				PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &uid},
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s of an earlier revision: %w", describe(object), err)
			}
		}
	}
	return nil
}
