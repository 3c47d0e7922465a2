// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/credentials"
)

// Label marks the records of simulated clusters. Its value is their prefix.
const Label = "fleetsim.kubenest.io/prefix"

const (
	// registerParallel is how many records are created at once.
	registerParallel = 16
	// lookEvery is how often it is looked for connection Secrets.
	lookEvery = time.Second
	// pageSize is how many objects one answer lists.
	pageSize = 500
)

// Records are the records of simulated clusters in a management cluster.
type Records struct {
	Client client.Client
	// Namespace is an organization's.
	Namespace string
	// Prefix of the records' names. Others' records are left alone.
	Prefix string
	// Clusters is how many there are.
	Clusters int
}

// Name of the i-th record, counted from 0.
func (r *Records) Name(i int) string { return fmt.Sprintf("%s-%05d", r.Prefix, i+1) }

// Register creates the records that do not exist, and the namespace if that does
// not either.
func (r *Records) Register(ctx context.Context) error {
	if err := r.ensureOrganization(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(registerParallel)
	for i := range r.Clusters {
		group.Go(func() error {
			record := &kubenestv1.ManagedCluster{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: r.Namespace, Name: r.Name(i), Labels: map[string]string{Label: r.Prefix},
				},
				Spec: kubenestv1.ManagedClusterSpec{Region: "simulated", Description: "Played by fleetsim."},
			}
			if err := client.IgnoreAlreadyExists(r.Client.Create(ctx, record)); err != nil {
				return fmt.Errorf("create record %s/%s: %w", record.Namespace, record.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *Records) ensureOrganization(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Namespace}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		namespace.Name, namespace.Labels = r.Namespace, map[string]string{kubenestv1.OrganizationLabel: "true"}
		if err := r.Client.Create(ctx, namespace); err != nil {
			return fmt.Errorf("create namespace %s: %w", r.Namespace, err)
		}
	case err != nil:
		return fmt.Errorf("read namespace %s: %w", r.Namespace, err)
	case namespace.Labels[kubenestv1.OrganizationLabel] != "true":
		return fmt.Errorf("namespace %s is not an organization, so the hub would not take the records up: kubectl label namespace %s %s=true",
			r.Namespace, r.Namespace, kubenestv1.OrganizationLabel)
	}
	return nil
}

// Members waits until the hub has issued a connection Secret for every record, and
// returns the clusters. progress, which may be nil, is told how many there are.
func (r *Records) Members(ctx context.Context, progress func(ready int)) ([]Member, error) {
	var members []Member
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		if members, err = r.members(ctx); err != nil {
			return false, err
		}
		if progress != nil {
			progress(len(members))
		}
		return len(members) == r.Clusters, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for connection Secrets (%d of %d are there; does the hub run, do the records %s… exist in namespace %s?): %w",
			len(members), r.Clusters, r.Name(0), r.Namespace, err)
	}
	return members, nil
}

func (r *Records) members(ctx context.Context) ([]Member, error) {
	found := make(map[string]credentials.Given, r.Clusters)
	next := ""
	for {
		var page corev1.SecretList
		err := r.Client.List(ctx, &page, client.InNamespace(r.Namespace), client.MatchingLabels{kubenestv1.ConnectionLabel: "true"},
			client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return nil, fmt.Errorf("list connection Secrets in namespace %s: %w", r.Namespace, err)
		}
		for i := range page.Items {
			data := page.Items[i].Data
			found[page.Items[i].Name] = credentials.Given{
				HubURL: string(data[kubenestv1.ConnectionKeyHubURL]),
				Token:  string(data[kubenestv1.ConnectionKeyToken]),
				CA:     string(data[kubenestv1.ConnectionKeyCA]),
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	members := make([]Member, 0, r.Clusters)
	for i := range r.Clusters {
		if given := found[r.Name(i)+kubenestv1.ConnectionSecretSuffix]; given.Token != "" {
			members = append(members, Member{Name: r.Name(i), Given: given})
		}
	}
	return members, nil
}
