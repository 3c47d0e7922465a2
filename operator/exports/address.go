// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// address is where something listens.
type address struct{ host, port string }

// internal is the address inside the cluster. Its domain is left out: pods find it.
func internal(s *corev1.Service, port *corev1.ServicePort) address {
	return address{host: s.Name + "." + s.Namespace + ".svc", port: strconv.Itoa(int(port.Port))}
}

// external is the address of the load balancer of a Service, or of an Ingress that
// leads to it.
func (f *finder) external(ctx context.Context, s *corev1.Service, port *corev1.ServicePort) (address, error) {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		if len(s.Status.LoadBalancer.Ingress) > 0 {
			return address{host: nameOf(s.Status.LoadBalancer.Ingress[0].Hostname, s.Status.LoadBalancer.Ingress[0].IP), port: strconv.Itoa(int(port.Port))}, nil
		}
		return address{}, stack.Wait(kubenestv1.ReasonWaitingForAddress, "Service %s waits for the address of its load balancer", s.Name)
	}
	for _, manifest := range of[networkingv1.Ingress](f.objects, "Ingress") {
		host, found := hostFor(manifest, s.Name)
		if !found {
			continue
		}
		tls := len(manifest.Spec.TLS) > 0
		if host == "" {
			live, err := f.client.NetworkingV1().Ingresses(f.addon.Target.Namespace).Get(ctx, manifest.Name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return address{}, fmt.Errorf("read Ingress %s: %w", manifest.Name, err)
			}
			if err == nil && len(live.Status.LoadBalancer.Ingress) > 0 {
				host = nameOf(live.Status.LoadBalancer.Ingress[0].Hostname, live.Status.LoadBalancer.Ingress[0].IP)
			}
		}
		if host == "" {
			return address{}, stack.Wait(kubenestv1.ReasonWaitingForAddress, "Ingress %s waits for its address", manifest.Name)
		}
		if tls {
			return address{host: host, port: "443"}, nil
		}
		return address{host: host, port: "80"}, nil
	}
	return address{}, failed("an export is external, but Service %s is neither of type LoadBalancer nor behind an Ingress of the chart: set that in addonSpec.values", s.Name)
}

// nameOf prefers a name, which stays when the address changes.
func nameOf(hostname, ip string) string {
	if hostname != "" {
		return hostname
	}
	return ip
}

// hostFor is the host under which an Ingress leads to a Service.
func hostFor(i *networkingv1.Ingress, service string) (string, bool) {
	leads := func(b *networkingv1.IngressBackend) bool {
		return b != nil && b.Service != nil && b.Service.Name == service
	}
	for _, rule := range i.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for n := range rule.HTTP.Paths {
			if leads(&rule.HTTP.Paths[n].Backend) {
				return strings.TrimPrefix(rule.Host, "*."), true
			}
		}
	}
	return "", leads(i.Spec.DefaultBackend)
}

// mainService is the Service that clients of a known type use. It is the only one
// that fits: where two do, somebody has to say which.
func (f *finder) mainService(ctx context.Context, c *convention) (*corev1.Service, *corev1.ServicePort, error) {
	fitting := f.fitting(c)
	spec := f.addon.Component.AddonSpec
	if len(fitting) == 0 {
		return nil, nil, failed("no Service of the release has port %d of type %s: declare the exports. It has %s", c.port, spec.Type, f.list("Service"))
	}
	if len(fitting) > 1 {
		names := make([]string, 0, len(fitting))
		for _, s := range fitting {
			names = append(names, s.Name)
		}
		return nil, nil, failed("several Services could be the one for clients: %s. Declare exports host and port with serviceRef", strings.Join(names, ", "))
	}
	name := fitting[0].Name
	live, err := f.client.CoreV1().Services(f.addon.Target.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, stack.Wait(kubenestv1.ReasonWaitingForExport, "Service %s is not there yet", name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Service %s: %w", name, err)
	}
	port := c.portIn(live)
	if port == nil {
		return nil, nil, failed("Service %s has no port %d of type %s any more, but %s: declare the exports", name, c.port, spec.Type, portList(live))
	}
	return live, port, nil
}

// fitting are the Services with the port of the type: if there are any that are not
// headless these, without replicas if there are others, and the primary if there is.
func (f *finder) fitting(c *convention) []*corev1.Service {
	services := of[corev1.Service](f.objects, "Service")
	services = slices.DeleteFunc(services, func(s *corev1.Service) bool { return c.portIn(s) == nil })
	prefer := func(better func(*corev1.Service) bool) {
		if some := slices.Collect(func(yield func(*corev1.Service) bool) {
			for _, s := range services {
				if better(s) && !yield(s) {
					return
				}
			}
		}); len(some) > 0 {
			services = some
		}
	}
	prefer(func(s *corev1.Service) bool { return s.Spec.ClusterIP != corev1.ClusterIPNone })
	prefer(func(s *corev1.Service) bool {
		return !role(s, "read", "replica", "replicas", "secondary", "slave", "standby", "headless", "hl", "metrics")
	})
	prefer(func(s *corev1.Service) bool { return role(s, "primary", "master", "rw") })
	prefer(func(s *corev1.Service) bool {
		return s.Name == f.release || s.Name == f.release+"-"+string(f.addon.Component.AddonSpec.Type)
	})
	return services
}

// role reports whether a Service says that it has one of these roles: in the label of
// its component, or at the end of its name.
func role(s *corev1.Service, roles ...string) bool {
	component := s.Labels["app.kubernetes.io/component"]
	return slices.ContainsFunc(roles, func(r string) bool { return component == r || strings.HasSuffix(s.Name, "-"+r) })
}

// portIn is the type's port of a Service: by number, or by a well-known name.
func (c *convention) portIn(s *corev1.Service) *corev1.ServicePort {
	for i := range s.Spec.Ports {
		if s.Spec.Ports[i].Port == c.port {
			return &s.Spec.Ports[i]
		}
	}
	for i := range s.Spec.Ports {
		if slices.Contains(c.portNames, s.Spec.Ports[i].Name) {
			return &s.Spec.Ports[i]
		}
	}
	return nil
}
