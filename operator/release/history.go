// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
)

// Labels of a release's Secrets, beside those of Helm and of the component.
const (
	// ownerLabel is a hash of stack.Target.Owner.
	ownerLabel = "kubenest.io/owner"
	// digestLabel is the digest of what was asked for.
	digestLabel = "kubenest.io/digest"
)

// maxHistory is how many revisions Helm keeps.
const maxHistory = 10

// digestOf what is asked for: the chart, by its bytes or by a version that does not
// change, and the values.
func digestOf(a *delivery.Addon) (string, error) {
	spec := a.Component.AddonSpec
	var values any
	if spec.Values != nil && len(spec.Values.Raw) > 0 {
		if err := json.Unmarshal(spec.Values.Raw, &values); err != nil {
			return "", fmt.Errorf("read values: %w", err)
		}
	}
	reference := kubenestv1.Chart{Repo: spec.Chart.Repo, Name: spec.Chart.Name, OCI: spec.Chart.OCI, Version: spec.Chart.Version}
	packed := sha256.Sum256(a.Chart)
	text, err := json.Marshal(map[string]any{"chart": reference, "packed": hex.EncodeToString(packed[:]), "values": values})
	if err != nil {
		return "", fmt.Errorf("encode values: %w", err)
	}
	return label(string(text)), nil
}

// label is a hash that fits into a label.
func label(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// history is what is stored of a release, the newest first.
type history []*helmrelease.Release

// readHistory reads all revisions of a release.
func readHistory(helm *action.Configuration, name string) (history, error) {
	list, err := helm.Releases.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read release %s: %w", name, err)
	}
	var h history
	for _, each := range list {
		if r, ok := each.(*helmrelease.Release); ok {
			h = append(h, r)
		}
	}
	slices.SortFunc(h, func(a, b *helmrelease.Release) int { return b.Version - a.Version })
	return h, nil
}

// newest is nil if there is none.
func (h history) newest() *helmrelease.Release {
	if len(h) == 0 {
		return nil
	}
	return h[0]
}

// good is the newest revision that was deployed; nil if none ever was.
func (h history) good() *helmrelease.Release {
	for _, r := range h {
		if r.Info.Status == common.StatusDeployed || r.Info.Status == common.StatusSuperseded {
			return r
		}
	}
	return nil
}

// failures are the revisions of a digest that failed since something else was asked
// for, the newest first. Rollbacks are not asked for.
func (h history) failures(digest string) history {
	var failed history
	for _, r := range h {
		switch {
		case r.Info.RollbackRevision > 0:
		case r.Labels[digestLabel] == digest && r.Info.Status == common.StatusFailed:
			failed = append(failed, r)
		default:
			return failed
		}
	}
	return failed
}

// failedRollbacks are the newest revisions, if they are rollbacks that failed.
func (h history) failedRollbacks() history {
	for i, r := range h {
		if r.Info.RollbackRevision == 0 || r.Info.Status != common.StatusFailed {
			return h[:i]
		}
	}
	return h
}

// due reports whether a try is due after these failures.
func (h history) due(now time.Time, b backoff) bool {
	return len(h) == 0 || !now.Before(h[0].Info.LastDeployed.Add(b.after(len(h))))
}

// backoff between tries: it doubles from first to last.
type backoff struct{ first, last time.Duration }

func (b backoff) after(failures int) time.Duration {
	wait := b.first
	for i := 1; i < failures && wait < b.last; i++ {
		wait *= 2
	}
	return min(wait, b.last)
}

// stored is what the Secrets' labels say, which is enough as long as all is well.
type stored struct {
	version int
	status  common.Status
	owner   string
	digest  string
}

// peek reads the labels of the newest revision, without the releases themselves. It
// is nil if there is none.
func (r *rights) peek(ctx context.Context, name string) (*stored, error) {
	options := metav1.ListOptions{LabelSelector: "owner=helm,name=" + name, Limit: maxRecords}
	list, err := r.metadata.Resource(secrets).Namespace(r.namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("look release %s up: %w", name, err)
	}
	if list.Continue != "" {
		return nil, tooMany(options.LabelSelector, r.namespace)
	}
	var newest *stored
	for i := range list.Items {
		labels := list.Items[i].Labels
		s := &stored{status: common.Status(labels["status"]), owner: labels[ownerLabel], digest: labels[digestLabel]}
		if _, err := fmt.Sscan(labels["version"], &s.version); err != nil {
			continue // not made by Helm
		}
		if newest == nil || s.version > newest.version {
			newest = s
		}
	}
	return newest, nil
}
