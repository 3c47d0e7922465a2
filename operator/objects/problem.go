// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/operator/stack"
)

// ReasonExceededQuota is Kubernetes' own word for it.
const ReasonExceededQuota = "ExceededQuota"

// Explain makes a *stack.Problem of an answer of the API server that trying again at
// once does not change. Other errors come back as they are, with what was done.
func Explain(err error, t *stack.Target, o client.Object) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*stack.Problem](err); ok {
		return err
	}
	what := stack.Describe(o)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return stack.Wait(kubenestv1.ReasonWaitingForNamespace, "namespace %s is being deleted: it is made anew when it is gone", t.Namespace)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return problemOf(ReasonExceededQuota, "%s does not fit the Project's quota: %s. Raise the Project's spec.quota, or ask for less",
			what, after(err.Error(), "exceeded quota"))
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot impersonate"):
		return problemOf(kubenestv1.ReasonForbidden, "the operator may not act as ServiceAccount %s/%s: "+
			"upgrade its chart, which has the rights it needs", t.Namespace, kubenestv1.ProjectServiceAccount)
	case apierrors.IsForbidden(err) && o.GetObjectKind().GroupVersionKind().Kind == "Secret":
		return problemOf(kubenestv1.ReasonForbidden, "%s is forbidden to ServiceAccount %s/%s, with whose rights the App is deployed",
			what, t.Namespace, kubenestv1.ProjectServiceAccount)
	case apierrors.IsForbidden(err):
		return problemOf(kubenestv1.ReasonForbidden, "%s is not allowed: %s. Apps are deployed with the rights of the ServiceAccount %s/%s",
			what, err.Error(), t.Namespace, kubenestv1.ProjectServiceAccount)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsMethodNotSupported(err):
		return problemOf(kubenestv1.ReasonInvalid, "%s is not valid: %s", what, details(err, o))
	case meta.IsNoMatchError(err):
		return problemOf(kubenestv1.ReasonInvalid, "%s is of a kind that this cluster does not know (%s): install what defines it first",
			what, o.GetObjectKind().GroupVersionKind().GroupVersion())
	case apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces "):
		return stack.Wait(kubenestv1.ReasonWaitingForNamespace, "namespace %s is not there yet", t.Namespace)
	}
	return fmt.Errorf("apply %s: %w", what, err)
}

// problemOf bounds the message: parts of it are the API server's.
func problemOf(reason, format string, args ...any) *stack.Problem {
	p := stack.Refuse(reason, format, args...)
	p.Message = wire.Line(p.Message, wire.MaxText)
	return p
}

// details of what is invalid: of a Secret the fields only, for values may be in the
// words.
func details(err error, o client.Object) string {
	var status apierrors.APIStatus
	secret := o.GetObjectKind().GroupVersionKind().Kind == "Secret"
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		var words []string
		for _, cause := range status.Status().Details.Causes {
			words = append(words, describeCause(&cause, secret))
		}
		return strings.Join(words, "; ")
	}
	if secret {
		return "the API server can not read it"
	}
	return err.Error()
}

func describeCause(cause *metav1.StatusCause, secret bool) string {
	if secret {
		return strings.TrimSpace(cause.Field + " " + string(cause.Type))
	}
	return strings.TrimSpace(cause.Field + ": " + cause.Message)
}

// after is what stands behind the first such words, without the colon.
func after(s, words string) string {
	if _, rest, found := strings.Cut(s, words); found {
		return strings.TrimLeft(rest, ": ")
	}
	return s
}
