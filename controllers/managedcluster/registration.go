// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	kubenestv1ac "github.com/kubenest/kubenest/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/controllers/status"
	"github.com/kubenest/kubenest/hub/token"
)

// RegistrationReconciler takes records up: it gives each its id, issues its
// token into Secret <name>-connection and keeps that Secret working, and lets
// the token floor rise. It runs on the leader.
type RegistrationReconciler struct {
	// Client reads from the cache, in which Secrets are those with ConnectionLabel.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Events events.EventRecorder
	Keys   Keys
	Clock  clock.PassiveClock
	// HubURL is what operators dial.
	HubURL string
	// CABundle is what they check the hub's certificate against.
	CABundle func() string
	// Changed calls back when keys or CA bundle changed, so that every record is
	// looked at again.
	Changed func(func()) (cancel func())

	// undelivered are the claims of generations whose token is not in a Secret yet,
	// by record (types.NamespacedName → claim). Each try would claim another
	// otherwise, and each claim is a write that brings the next try on.
	undelivered sync.Map
}

// claim is a generation that was claimed for a record's token.
type claim struct {
	record     types.UID
	generation int64
}

// registration is what one reconcile has found out.
type registration struct {
	record *kubenestv1.ManagedCluster
	token  kubenestv1.TokenStatus
	// condition Registered, without its times.
	status          metav1.ConditionStatus
	reason, message string
}

// Reconcile takes one record up.
func (r *RegistrationReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var record kubenestv1.ManagedCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &record); err != nil {
		if apierrors.IsNotFound(err) {
			r.undelivered.Delete(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !record.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	reg := &registration{record: &record}
	if record.Status.Token != nil {
		reg.token = *record.Status.Token
	}
	wait, err := r.register(ctx, reg)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		reg.status, reg.reason = metav1.ConditionFalse, kubenestv1.ReasonTokenIssueFailed
		reg.message = wire.Shorten(fmt.Sprintf("No token could be issued: %v", err), wire.MaxText)
	}
	if writeErr := r.write(ctx, reg); writeErr != nil {
		if apierrors.IsConflict(writeErr) {
			return ctrl.Result{RequeueAfter: time.Second}, nil
		}
		return ctrl.Result{}, writeErr
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// register does the work, and leaves the outcome in reg.
func (r *RegistrationReconciler) register(ctx context.Context, reg *registration) (wait time.Duration, err error) {
	record := reg.record
	// What was revoked stays so, even if the record is not taken up any more.
	r.ratchet(reg)
	if refused, err := r.refuse(ctx, reg); refused || err != nil {
		return 0, err
	}
	if record.Spec.Abandoned {
		reg.status, reg.reason, reg.message = metav1.ConditionFalse, kubenestv1.ReasonAbandoned, abandonedMessage
		return 0, r.deleteSecret(ctx, record)
	}
	claims, err := r.ensureSecret(ctx, reg)
	if err != nil {
		return 0, err
	}
	expires := metav1.NewTime(claims.ExpiresAt).Rfc3339Copy()
	reg.token.ExpiresAt = &expires
	reg.token.ConnectionSecret = record.ConnectionSecretName()
	reg.status, reg.reason = metav1.ConditionTrue, kubenestv1.ReasonTokenIssued
	reg.message = fmt.Sprintf("Secret %s holds a token that works, and a values.yaml for the operator chart.", record.ConnectionSecretName())
	return renewAt(claims).Sub(r.Clock.Now()) + time.Second, nil
}

// refuse finds out whether the record may be taken up at all.
func (r *RegistrationReconciler) refuse(ctx context.Context, reg *registration) (bool, error) {
	record := reg.record
	organization, err := clusters.IsOrganization(ctx, r.Client, record.Namespace)
	switch {
	case err != nil:
		return false, err
	case !organization:
		reg.status, reg.reason = metav1.ConditionFalse, kubenestv1.ReasonNotAnOrganization
		reg.message = fmt.Sprintf("Namespace %s is not an organization, and kubenest acts in organizations only: kubectl label namespace %s %s=true",
			record.Namespace, record.Namespace, kubenestv1.OrganizationLabel)
		return true, nil
	}
	if p := record.Spec.Provision; p != nil && !meta.IsStatusConditionTrue(record.Status.Conditions, kubenestv1.ConditionProvisioned) {
		reg.status, reg.reason = metav1.ConditionFalse, kubenestv1.ReasonAwaitingMachines
		reg.message = "The token is issued when the machines are up."
		return true, nil
	}
	owner, err := clusters.ByID(ctx, r.Client, record.ID())
	switch {
	case err != nil:
		return false, err
	case owner != nil && owner.UID != record.UID:
		reg.status, reg.reason = metav1.ConditionFalse, kubenestv1.ReasonClusterIDTaken
		reg.message = fmt.Sprintf("The cluster id %s belongs to an older record. Delete one of the two; this one, if the cluster is that one's.", record.ID())
		return true, nil
	}
	return false, nil
}

// ratchet lets floor and generation rise, and never fall: the floor to the one
// asked for, the generation to the highest that an operator has shown.
func (r *RegistrationReconciler) ratchet(reg *registration) {
	record := reg.record
	if s := record.Status.Session; s != nil {
		reg.token.Generation = max(reg.token.Generation, s.TokenGeneration)
	}
	reg.token.Floor = max(reg.token.Floor, record.TokenFloor())
	if record.Spec.Abandoned {
		reg.token.Floor = max(reg.token.Floor, reg.token.Generation+1)
		reg.token.ExpiresAt, reg.token.ConnectionSecret = nil, ""
	}
}

// ensureSecret makes the connection Secret hold a token that works.
func (r *RegistrationReconciler) ensureSecret(ctx context.Context, reg *registration) (token.Claims, error) {
	record := reg.record
	var secret corev1.Secret
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: record.Namespace, Name: record.ConnectionSecretName()}, &secret)
	if client.IgnoreNotFound(err) != nil {
		return token.Claims{}, fmt.Errorf("read Secret %s: %w", record.ConnectionSecretName(), err)
	}
	kept := string(secret.Data[kubenestv1.ConnectionKeyToken])
	claims, works := r.works(reg, kept)
	if !works {
		minted, c, err := r.mint(ctx, reg)
		if err != nil {
			return token.Claims{}, err
		}
		kept, claims = minted.Reveal(), c
	}
	wanted, err := r.connection(record, kept)
	if err != nil {
		return token.Claims{}, err
	}
	if !ownedBy(&secret, record) || !holds(secret.Data, wanted) {
		if err := r.applySecret(ctx, record, wanted); err != nil {
			return token.Claims{}, err
		}
	}
	r.undelivered.Delete(client.ObjectKeyFromObject(record))
	return claims, nil
}

// holds reports whether data has all that is wanted. Keys that somebody added are
// theirs: applying would not remove them.
func holds(data, wanted map[string][]byte) bool {
	for key, value := range wanted {
		if present, ok := data[key]; !ok || !slices.Equal(present, value) {
			return false
		}
	}
	return true
}

// works reports whether a token from the Secret needs no replacing: it verifies,
// is not revoked, is signed by the key that signs now, and has not used up two
// thirds of its life.
func (r *RegistrationReconciler) works(reg *registration, raw string) (token.Claims, bool) {
	if raw == "" {
		return token.Claims{}, false
	}
	keyset := r.Keys.Keyset()
	claims, expired, err := keyset.Verify(raw, r.Clock.Now())
	if err != nil || expired || claims.ClusterID != reg.record.ID() || claims.Generation < reg.token.Floor {
		return token.Claims{}, false
	}
	reg.token.Generation = max(reg.token.Generation, claims.Generation)
	return claims, claims.KeyID == keyset.SigningKeyID() && r.Clock.Now().Before(renewAt(claims))
}

// renewAt is when two thirds of a token's life are over.
func renewAt(c token.Claims) time.Time {
	return c.IssuedAt.Add(c.ExpiresAt.Sub(c.IssuedAt) * 2 / 3)
}

// mint issues a token of a generation that was claimed first.
func (r *RegistrationReconciler) mint(ctx context.Context, reg *registration) (token.Token, token.Claims, error) {
	record := reg.record
	if err := r.claim(ctx, reg); err != nil {
		return token.Token{}, token.Claims{}, fmt.Errorf("claim token generation %d: %w", reg.token.Generation, err)
	}
	minted, claims, err := r.Keys.Keyset().Mint(record.ID(), reg.token.Generation, lifetimeOf(record), r.Clock.Now())
	if err != nil {
		return token.Token{}, token.Claims{}, err
	}
	log.FromContext(ctx).Info("Token issued", "cluster", record.ID(), "generation", claims.Generation, "kid", claims.KeyID, "jti", claims.ID)
	return minted, claims, nil
}

// claim takes the next generation: of two that claim at once, the second meets a
// conflict. One that was claimed for a token that could not be stored is taken.
func (r *RegistrationReconciler) claim(ctx context.Context, reg *registration) error {
	record := reg.record
	key, last := client.ObjectKeyFromObject(record), claim{record.UID, reg.token.Generation}
	if kept, ok := r.undelivered.Load(key); ok && kept == last && last.generation >= reg.token.Floor {
		return nil
	}
	reg.token.Generation = max(reg.token.Generation, reg.token.Floor-1) + 1
	if err := r.apply(ctx, reg, record.Status.Conditions); err != nil {
		return err
	}
	r.undelivered.Store(key, claim{record.UID, reg.token.Generation})
	return nil
}

// write applies the fields of FieldManagerRegistration if they changed.
func (r *RegistrationReconciler) write(ctx context.Context, reg *registration) error {
	record := reg.record
	desired := record.Status.DeepCopy()
	desired.ClusterID = record.ID()
	desired.Token = &reg.token
	status.Set(&desired.Conditions, metav1.Condition{
		Type: kubenestv1.ConditionRegistered, Status: reg.status, Reason: reg.reason, Message: reg.message,
	}, record.Generation, metav1.NewTime(r.Clock.Now()).Rfc3339Copy())
	if equality.Semantic.DeepEqual(&record.Status, desired) {
		return nil
	}
	if err := r.apply(ctx, reg, desired.Conditions); err != nil {
		return fmt.Errorf("write registration of %s/%s: %w", record.Namespace, record.Name, err)
	}
	return nil
}

// apply writes the fields of FieldManagerRegistration, and tells of a floor that
// rose with them.
func (r *RegistrationReconciler) apply(ctx context.Context, reg *registration, conditions []metav1.Condition) error {
	record := reg.record
	apply := kubenestv1ac.ManagedCluster(record.Name, record.Namespace).
		WithUID(record.UID).
		WithResourceVersion(record.ResourceVersion).
		WithStatus(registrationFields(record.ID(), &reg.token, conditions))
	err := r.Client.Status().Apply(ctx, apply, client.FieldOwner(kubenestv1.FieldManagerRegistration), client.ForceOwnership)
	if err != nil {
		return err
	}
	var before int64
	if record.Status.Token != nil {
		before = record.Status.Token.Floor
	}
	if reg.token.Floor > before {
		r.Events.Eventf(record, nil, corev1.EventTypeNormal, kubenestv1.EventTokenRevoked, "Revoke",
			"Tokens below generation %d are refused from now on", reg.token.Floor)
	}
	record.ResourceVersion = *apply.ResourceVersion
	record.Status.ClusterID, record.Status.Token = record.ID(), reg.token.DeepCopy()
	return nil
}

func registrationFields(id string, t *kubenestv1.TokenStatus, conditions []metav1.Condition) *kubenestv1ac.ManagedClusterStatusApplyConfiguration {
	tokens := kubenestv1ac.TokenStatus().WithGeneration(t.Generation).WithFloor(t.Floor)
	tokens.ExpiresAt = t.ExpiresAt
	if t.ConnectionSecret != "" {
		tokens.WithConnectionSecret(t.ConnectionSecret)
	}
	return kubenestv1ac.ManagedClusterStatus().
		WithClusterID(id).
		WithToken(tokens).
		WithConditions(status.Apply(conditions, kubenestv1.ConditionRegistered)...)
}
