// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// Limits of what is stored of a release. Who may write Secrets in a Project's namespace
// can write one that looks like a release, and 1 MiB of it unpacks to 1 GiB.
const (
	// maxRecord is how many bytes a revision may have unpacked.
	maxRecord = 20 << 20
	// maxHistoryBytes is how many bytes all revisions of a release may have unpacked.
	maxHistoryBytes = 128 << 20
	// maxRecords is how many revisions a release may have: those that Helm keeps, and
	// some that a person adds with the helm command line, which keeps as many.
	maxRecords = 40
	// maxParts is how many values, lists and objects a revision may be made of, beside
	// what stands in texts: each takes a hundred times the memory of its text.
	maxParts = 100_000
	// recordsPage is how many revisions are read at a time.
	recordsPage = 8
	// recordKey is where Helm keeps a revision in its Secret.
	recordKey = "release"
)

// records are the Secrets of releases, as Helm may see them: it unpacks whatever it
// finds. Nothing over a limit gets to it, but a *stack.Problem that names the Secret.
type records struct{ typedcorev1.SecretInterface }

// Get reads one revision.
func (r *records) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error) {
	secret, err := r.SecretInterface.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	if _, err := unpacked(secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// List reads revisions in pages, so that never more than a page over the limits is in
// memory.
func (r *records) List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	all := &corev1.SecretList{}
	total := 0
	o.Limit = recordsPage
	for {
		page, err := r.SecretInterface.List(ctx, o)
		if err != nil {
			return nil, err
		}
		if len(all.Items)+len(page.Items) > maxRecords {
			return nil, tooMany(o.LabelSelector, page.Items[0].Namespace)
		}
		for i := range page.Items {
			size, err := unpacked(&page.Items[i])
			if err != nil {
				return nil, err
			}
			if total += size; total > maxHistoryBytes {
				return nil, stack.Refuse(kubenestv1.ReasonInstallFailed, "the Helm releases %s in namespace %s have over %d MiB together, which is the limit: "+
					"delete the Secrets of old revisions", o.LabelSelector, page.Items[i].Namespace, maxHistoryBytes>>20)
			}
		}
		all.ListMeta, all.Items = page.ListMeta, append(all.Items, page.Items...)
		if o.Continue = page.Continue; o.Continue == "" {
			return all, nil
		}
	}
}

// Create stores a revision, unless it could not be read again.
func (r *records) Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error) {
	if _, err := unpacked(secret); err != nil {
		return nil, err
	}
	return r.SecretInterface.Create(ctx, secret, o)
}

func tooMany(selector, namespace string) *stack.Problem {
	return stack.Refuse(kubenestv1.ReasonInstallFailed, "there are over %d Secrets of Helm releases with %s in namespace %s, which is the limit: "+
		"delete those of old revisions, and those that Helm has not made", maxRecords, selector, namespace)
}

// unpacked is how many bytes Helm would make of a Secret. What Helm can not unpack
// counts up to there: it leaves such a Secret out.
func unpacked(secret *corev1.Secret) (int, error) {
	g := &gauge{}
	if err := g.measure(string(secret.Data[recordKey])); !errors.Is(err, errTooLarge) {
		return g.size, nil
	}
	return 0, stack.Refuse(kubenestv1.ReasonInstallFailed, "the Helm release in Secret %s in namespace %s is over %d MiB, or made of over %d values, "+
		"which are the limits: if Helm has not made this Secret, delete it, else make the chart or its values smaller",
		secret.Name, secret.Namespace, maxRecord>>20, maxParts)
}

var errTooLarge = errors.New("over the limit")

// gauge measures JSON that is written to it, and fails at the limits.
type gauge struct {
	size, parts     int
	quoted, escaped bool
}

// measure unpacks as Helm does, and keeps nothing.
func (g *gauge) measure(text string) error {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(packed, []byte{0x1f, 0x8b, 0x08}) {
		_, err = g.Write(packed)
		return err
	}
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	_, err = io.CopyN(g, unzip, maxRecord+1)
	return err
}

// Write counts bytes, and what is not in quotes.
func (g *gauge) Write(text []byte) (int, error) {
	g.size += len(text)
	for _, c := range text {
		switch {
		case g.escaped:
			g.escaped = false
		case c == '\\':
			g.escaped = g.quoted
		case c == '"':
			g.quoted = !g.quoted
		case !g.quoted && (c == ',' || c == '{' || c == '['):
			g.parts++
		}
	}
	if g.size > maxRecord || g.parts > maxParts {
		return 0, errTooLarge
	}
	return len(text), nil
}
