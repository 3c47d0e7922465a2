// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/controllers/clusters"
	"github.com/kubenest/kubenest/hub/session"
)

// claimAttempts bounds how often a claim is decided anew because somebody wrote
// the record meanwhile. Each attempt after the first reads the record live.
const claimAttempts = 4

// Claim decides whether the operator that said hello may have the session, and
// if so writes it down before it is welcomed: epoch, identity, figures,
// Connected and phase, in one write.
func (a *Authority) Claim(ctx context.Context, c session.Claim) (int64, error) {
	record, err := clusters.ByID(ctx, a.Client, c.Identity.ClusterID)
	if err != nil {
		return 0, err
	}
	for attempt := 1; ; attempt++ {
		if record == nil || deleted(record) {
			return 0, unknownCluster()
		}
		epoch, err := a.claim(ctx, record, &c)
		if !apierrors.IsConflict(err) || attempt == claimAttempts {
			return epoch, err
		}
		record, err = readLive(ctx, a.Live, record)
		switch {
		case errors.Is(err, errGone):
			return 0, unknownCluster()
		case err != nil:
			return 0, err
		}
	}
}

func (a *Authority) claim(ctx context.Context, record *kubenestv1.ManagedCluster, c *session.Claim) (int64, error) {
	if err := admit(record, &c.Identity); err != nil {
		return 0, err
	}
	now := a.Clock.Now()
	id, refusal := a.identify(record, c, now)
	if refusal != nil {
		a.contested(record, c, refusal)
		return 0, refusal
	}
	desired := a.claimed(record, c, id, metav1.NewTime(now).Rfc3339Copy())
	if err := a.writer.write(ctx, record, desired); err != nil {
		return 0, err
	}
	switch {
	case id.pinned:
		a.Events.Eventf(record, nil, "Normal", kubenestv1.EventClusterPinned, "Connect",
			"The record is bound to the cluster whose kube-system namespace has UID %s", id.clusterUID)
	case id.rebound:
		a.Events.Eventf(record, nil, "Normal", kubenestv1.EventClusterRebound, "Connect",
			"The record was moved by spec.rebind from the cluster with UID %s to the one with UID %s", record.Status.ClusterUID, id.clusterUID)
	}
	return desired.Session.Epoch, nil
}

// identify adds what only this replica knows to the pure decision: whether the
// incumbent lives, and which second operators were refused here lately.
func (a *Authority) identify(record *kubenestv1.ManagedCluster, c *session.Claim, now time.Time) (identity, *wire.Refusal) {
	alive := a.incumbentAlive(record, c)
	contender := contender{clusterID: c.Identity.ClusterID, process: c.Hello.Process}
	if refused, ok := a.contenders.Get(contender); ok && alive {
		if last := record.Status.Session; last != nil && last.Process != c.Hello.Process && now.Sub(refused.(time.Time)) < duplicateWindow {
			a.contenders.Add(contender, now)
			return identity{}, duplicate(record)
		}
	}
	id, refusal := decideIdentity(record, &c.Hello, alive, now)
	if refusal != nil && refusal.Class == wire.ClassDuplicate {
		a.contenders.Add(contender, now)
	}
	return id, refusal
}

// contender is an operator process that another one of its identity outlives.
type contender struct{ clusterID, process string }

func (a *Authority) incumbentAlive(record *kubenestv1.ManagedCluster, c *session.Claim) bool {
	last := record.Status.Session
	switch {
	case last == nil || last.Replica == "":
		return false
	case last.Replica == a.Replica:
		return c.Live != nil
	default:
		alive, _ := a.Replicas.Alive(last.Replica)
		return alive
	}
}

// claimed is the record's status once the session is established.
func (a *Authority) claimed(record *kubenestv1.ManagedCluster, c *session.Claim, id identity, now metav1.Time) *kubenestv1.ManagedClusterStatus {
	desired := record.Status.DeepCopy()
	s := &kubenestv1.SessionStatus{
		Replica: a.Replica, ID: c.SessionID, Epoch: 1,
		Process: c.Hello.Process, PreviousProcess: id.previousProcess,
		ConnectedAt: &now, TokenGeneration: c.Identity.Generation,
		ClockOffset: clockOffset(c.Hello.Time, c.ReceivedAt),
	}
	if record.Status.Session != nil {
		s.Epoch = record.Status.Session.Epoch + 1
	}
	if !id.previousSince.IsZero() {
		since := metav1.NewTime(id.previousSince).Rfc3339Copy()
		s.PreviousSince = &since
	}
	desired.Session = s
	desired.ClusterUID = id.clusterUID
	desired.OperatorVersion = c.Hello.OperatorVersion
	setFacts(desired, &c.Hello.Facts, c.ReceivedAt)
	setEstablished(record, desired, complaintOf(&c.Hello.Facts), now)
	return desired
}

// setFacts takes facts over into a status. Facts that know nothing leave the
// last known figures, with their time.
func setFacts(desired *kubenestv1.ManagedClusterStatus, facts *wire.Facts, observed time.Time) {
	if facts.KubernetesVersion != "" {
		desired.KubernetesVersion = facts.KubernetesVersion
	}
	if facts.Unreachable != "" || facts.Nodes == nil && resourcesOf(facts, observed) == nil {
		return
	}
	desired.NodeCount = facts.Nodes
	desired.Resources = resourcesOf(facts, observed)
}

// setEstablished sets Connected and all that follows from it.
func setEstablished(record *kubenestv1.ManagedCluster, desired *kubenestv1.ManagedClusterStatus, c complaint, now metav1.Time) {
	setConnected(record, desired, metav1.ConditionTrue, kubenestv1.ReasonSessionEstablished, "The operator is connected.", now)
	conclude(record, desired, c, now)
}

// clockOffset is how far the operator's clock is ahead, rounded to what the
// time on the way leaves certain.
func clockOffset(operator, received time.Time) string {
	if operator.IsZero() {
		return ""
	}
	return operator.Sub(received).Round(100 * time.Millisecond).String()
}

// contested tells of a refused identity: once an Event, not at each attempt.
func (a *Authority) contested(record *kubenestv1.ManagedCluster, c *session.Claim, refusal *wire.Refusal) {
	who := contender{clusterID: string(refusal.Class) + c.Identity.ClusterID, process: c.Hello.ClusterUID + c.Hello.Process}
	if at, ok := a.contenders.Get(who); ok && a.Clock.Since(at.(time.Time)) < duplicateWindow {
		return
	}
	a.contenders.Add(who, a.Clock.Now())
	reason := kubenestv1.EventIdentityConflict
	if refusal.Class == wire.ClassDuplicate {
		reason = kubenestv1.EventDuplicateOperator
	}
	a.Events.Eventf(record, nil, "Warning", reason, "Refuse", "%s", note(refusal.Message))
}

// errGone says that a record is no longer there, or is another one of its name.
var errGone = errors.New("the record is gone")

// readLive reads a record from the API server itself. It fails with errGone if
// the record is not there.
func readLive(ctx context.Context, reader client.Reader, record *kubenestv1.ManagedCluster) (*kubenestv1.ManagedCluster, error) {
	var fresh kubenestv1.ManagedCluster
	key := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
	switch err := reader.Get(ctx, key, &fresh); {
	case apierrors.IsNotFound(err):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", key, err)
	case fresh.UID != record.UID:
		return nil, errGone
	}
	return &fresh, nil
}

// admit refuses a verified token that its record no longer accepts.
func admit(record *kubenestv1.ManagedCluster, id *session.Identity) error {
	switch {
	case record.Spec.Abandoned:
		return wire.Refuse(wire.ClassRevoked,
			"the cluster %s/%s was given up (spec.abandoned), which revoked its tokens: to take it back, set spec.abandoned to false and install the operator again with the new values.yaml of Secret %s",
			record.Namespace, record.Name, record.ConnectionSecretName())
	case id.Generation < record.TokenFloor():
		return wire.Refuse(wire.ClassRevoked,
			"this token of %s/%s was revoked: its generation is %d and the lowest accepted one is %d; install the operator again with the values.yaml of Secret %s",
			record.Namespace, record.Name, id.Generation, record.TokenFloor(), record.ConnectionSecretName())
	case clusterIDTaken(record):
		return unknownCluster()
	case registeredIs(record, kubenestv1.ReasonNotAnOrganization):
		return wire.Refuse(wire.ClassUnknownCluster,
			"the record %s/%s is not in an organization any more: label its namespace %s=true",
			record.Namespace, record.Name, kubenestv1.OrganizationLabel)
	}
	return nil
}

// clusterIDTaken reports whether the registration controller found that the
// record's id is another one's.
func clusterIDTaken(record *kubenestv1.ManagedCluster) bool {
	return registeredIs(record, kubenestv1.ReasonClusterIDTaken)
}

// registeredIs reports whether a record could not be taken up for a reason.
func registeredIs(record *kubenestv1.ManagedCluster, reason string) bool {
	c := meta.FindStatusCondition(record.Status.Conditions, kubenestv1.ConditionRegistered)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason
}

func unknownCluster() error {
	return wire.Refuse(wire.ClassUnknownCluster,
		"no record has this token's cluster id: the record was deleted; register the cluster again and install the operator with the new token, or uninstall the operator")
}

// reclaim writes a living session over a record that forgot it, under the
// session's own epoch.
func (a *Authority) reclaim(ctx context.Context, record *kubenestv1.ManagedCluster, info *session.Info) error {
	hello := wire.Hello{ClusterUID: info.ClusterUID, Process: info.Process, OperatorVersion: info.OperatorVersion, Facts: info.Facts}
	c := session.Claim{Identity: info.Identity, Hello: hello, SessionID: info.SessionID, ReceivedAt: info.FactsAt}
	if err := admit(record, &c.Identity); err != nil {
		return err
	}
	id, refusal := decideIdentity(record, &hello, false, a.Clock.Now())
	if refusal != nil {
		return refusal
	}
	desired := a.claimed(record, &c, id, metav1.NewTime(info.ConnectedAt).Rfc3339Copy())
	desired.Session.Epoch = info.Epoch
	return a.writer.write(ctx, record, desired)
}
