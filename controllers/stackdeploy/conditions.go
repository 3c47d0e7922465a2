// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package stackdeploy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
)

// What the condition Delivered says. Messages hold nothing that changes by itself.

func undelivered(reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kubenestv1.ConditionDelivered, Status: metav1.ConditionFalse, Reason: reason, Message: wire.Shorten(message, wire.MaxText),
	}
}

func delivered(cluster string) metav1.Condition {
	return metav1.Condition{
		Type: kubenestv1.ConditionDelivered, Status: metav1.ConditionTrue, Reason: kubenestv1.ReasonDelivered,
		Message: fmt.Sprintf("Cluster %s has it.", cluster),
	}
}

// delivering, with what the operator said about the last try, if it failed.
func delivering(cluster, failure string) metav1.Condition {
	message := fmt.Sprintf("On its way to cluster %s.", cluster)
	if failure != "" {
		message = fmt.Sprintf("Cluster %s could not store it, and it is tried again: %s", cluster, failure)
	}
	return undelivered(kubenestv1.ReasonDelivering, message)
}

// tooOld, with what the operator said, if it found out itself.
func tooOld(t *task, required int, failure string) metav1.Condition {
	message := fmt.Sprintf("The operator of cluster %s (version %s, StackDeploy schema %d) would lose fields of it, which takes schema %d: upgrade the operator (helm upgrade, with the values.yaml in Secret %s/%s).",
		t.cluster(), version(t.info.OperatorVersion), t.info.Schema, required, t.record.Namespace, t.record.ConnectionSecretName())
	if failure != "" {
		message += " It says: " + failure
	}
	return undelivered(kubenestv1.ReasonOperatorTooOld, message)
}

func version(v string) string {
	if v == "" {
		return "unknown"
	}
	return v
}

func refusedBy(cluster, failure string) metav1.Condition {
	return undelivered(kubenestv1.ReasonDeliveryRefused, fmt.Sprintf("Cluster %s refuses to store it; change the App: %s", cluster, failure))
}

func inputMissing(problem string) *metav1.Condition {
	c := undelivered(kubenestv1.ReasonInputMissing, problem)
	return &c
}

// tooMany is about the cluster's others.
func tooMany(cluster string) metav1.Condition {
	return undelivered(kubenestv1.ReasonTooLarge, fmt.Sprintf(
		"Cluster %s has %d StackDeploys, which is as many as one may have: remove Apps from it, or use another cluster.", cluster, wire.MaxStacks))
}

// tooLarge tells what is large.
func tooLarge(message, spec int, inputs []wire.Input) metav1.Condition {
	largest, size := "", 0
	for _, in := range inputs {
		n := 0
		for key, value := range in.Data {
			n += len(key) + len(value)
		}
		if n > size {
			largest, size = in.Kind+" "+in.Name, n
		}
	}
	text := fmt.Sprintf("It is %d bytes as a message, at most %d can be sent: its spec is %d bytes", message, wire.MaxMessage, spec)
	if largest != "" {
		text += fmt.Sprintf(", and of its inputs %s is the largest with %d bytes before they are encoded", largest, size)
	}
	return undelivered(kubenestv1.ReasonTooLarge, text+". Split the App, or take charts from a repository.")
}
