// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// fill adds what a known type exports by itself, as far as it is not declared.
func (f *finder) fill(ctx context.Context, c *convention, values map[string]string) error {
	spec := f.addon.Component.AddonSpec
	declared := func(names ...string) bool {
		return slices.ContainsFunc(spec.Exports, func(e kubenestv1.Export) bool {
			return slices.Contains(names, e.Name) && (e.ServiceRef != nil || e.SecretKeyRef != nil || e.Template != "")
		})
	}
	if !declared(exportHost) || !declared(exportPort) {
		if err := f.fillAddress(ctx, c, values); err != nil {
			return err
		}
	}
	if err := f.fillCredentials(ctx, c, values, declared); err != nil {
		return err
	}
	if declared(exportHost, exportPort) && (values[exportHost] == "" || values[exportPort] == "") {
		return nil // they are templates: so is the dsn, if there is one
	}
	if spec.Type == kubenestv1.AddonKafka && !declared(exportBrokers) {
		values[exportBrokers] = dsn(spec.Type, values)
	}
	if !declared(exportDSN) {
		values[exportDSN] = dsn(spec.Type, values)
	}
	return nil
}

func (f *finder) fillAddress(ctx context.Context, c *convention, values map[string]string) error {
	s, port, err := f.mainService(ctx, c)
	if err != nil {
		return err
	}
	at := internal(s, port)
	external := slices.ContainsFunc(f.addon.Component.AddonSpec.Exports, func(e kubenestv1.Export) bool {
		return e.External && e.ServiceRef == nil && slices.Contains([]string{exportHost, exportPort, exportDSN, exportBrokers}, e.Name)
	})
	if external {
		if at, err = f.external(ctx, s, port); err != nil {
			return err
		}
	}
	setDefault(values, exportHost, at.host)
	setDefault(values, exportPort, at.port)
	return nil
}

func setDefault(values map[string]string, name, value string) {
	if _, ok := values[name]; !ok {
		values[name] = value
	}
}

func (f *finder) fillCredentials(ctx context.Context, c *convention, values map[string]string, declared func(...string) bool) error {
	l := &lookup{finder: f}
	if err := l.load(ctx); err != nil {
		return err
	}
	if c.hasUser && !declared(exportUsername) {
		username, err := l.find(exportUsername, c.username)
		if err != nil {
			return err
		}
		if username == "" {
			username = c.administrator
		}
		values[exportUsername] = username
	}
	if len(c.adminPassword.keys) > 0 && !declared(exportPassword) {
		from := c.adminPassword
		if c.hasUser && values[exportUsername] != c.administrator {
			from = c.userPassword
		}
		password, err := l.find(exportPassword, from)
		switch {
		case err != nil:
			return err
		case password == "" && l.missing != "":
			return stack.Wait(kubenestv1.ReasonWaitingForExport, "Secret %s is not there yet", l.missing)
		case password == "" && !c.open:
			return failed("the password is not to be found in %s: declare export password with secretKeyRef", f.listSecrets(l))
		case password == "" && c.hasUser:
			delete(values, exportUsername) // it is open to everybody
		case password != "":
			values[exportPassword] = password
		}
	}
	if c.hasDatabase && !declared(exportDatabase) {
		database, err := l.find(exportDatabase, c.database)
		if err != nil {
			return err
		}
		if database == "" {
			database = c.defaultDatabase
		}
		if database != "" {
			values[exportDatabase] = database
		}
	}
	return nil
}

func (f *finder) listSecrets(l *lookup) string {
	if len(l.secrets) == 0 {
		return "the release, which has no Secrets"
	}
	names := make([]string, 0, len(l.secrets))
	for _, s := range l.secrets {
		names = append(names, s.Name)
	}
	return "Secrets " + strings.Join(names, ", ")
}

// lookup searches what a release has made.
type lookup struct {
	*finder
	secrets []*corev1.Secret // as the cluster has them
	env     []corev1.EnvVar
	values  map[string]any
	missing string // a Secret that is not there
}

// load reads the Secrets of the release, and the one that its values name.
func (l *lookup) load(ctx context.Context) error {
	if raw := l.addon.Component.AddonSpec.Values; raw != nil && len(raw.Raw) > 0 {
		if err := json.Unmarshal(raw.Raw, &l.values); err != nil {
			return failed("addonSpec.values are no object")
		}
	}
	var names []string
	for _, s := range of[corev1.Secret](l.objects, "Secret") {
		if s.Type == "" || s.Type == corev1.SecretTypeOpaque || s.Type == corev1.SecretTypeBasicAuth {
			names = append(names, s.Name)
		}
	}
	for _, path := range [][]string{{"auth", "existingSecret"}, {"existingSecret"}, {"auth", "existingPasswordSecret"}} {
		if name, ok, err := unstructured.NestedString(l.values, path...); ok && err == nil && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		s, err := l.secret(ctx, name)
		switch {
		case err != nil:
			return err
		case s == nil:
			l.missing = name
		default:
			l.secrets = append(l.secrets, s)
		}
	}
	for _, o := range l.objects {
		if o.GetKind() != "StatefulSet" && o.GetKind() != "Deployment" {
			continue
		}
		var pod corev1.PodTemplateSpec
		template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil || !found || runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod) != nil {
			continue
		}
		for i := range pod.Spec.Containers {
			l.env = append(l.env, pod.Spec.Containers[i].Env...)
		}
	}
	return nil
}

// find looks for a value in the containers' environment, the Secrets and the values.
func (l *lookup) find(export string, from source) (string, error) {
	for _, name := range from.env {
		if value, ok := l.fromEnv(name); ok {
			return value, nil
		}
	}
	for _, key := range from.keys {
		var found []*corev1.Secret
		for _, s := range l.secrets {
			if len(s.Data[key]) > 0 {
				found = append(found, s)
			}
		}
		switch {
		case len(found) == 1:
			return string(found[0].Data[key]), nil
		case len(found) > 1:
			names := make([]string, 0, len(found))
			for _, s := range found {
				names = append(names, s.Name)
			}
			return "", failed("several Secrets have a key %s: %s. Declare export %s with secretKeyRef", key, strings.Join(names, ", "), export)
		}
	}
	for _, path := range from.values {
		value, found, err := unstructured.NestedFieldNoCopy(l.values, path...)
		if err != nil || !found {
			continue
		}
		if list, ok := value.([]any); ok && len(list) > 0 {
			value = list[0]
		}
		if text, ok := value.(string); ok && text != "" {
			return text, nil
		}
	}
	return "", nil
}

// fromEnv is a variable of the first container that has it: its value, or the key of
// the Secret that it is from.
func (l *lookup) fromEnv(name string) (string, bool) {
	for i := range l.env {
		e := &l.env[i]
		if e.Name != name {
			continue
		}
		if e.ValueFrom == nil {
			if e.Value != "" && !strings.Contains(e.Value, "$(") {
				return e.Value, true
			}
			continue
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			for _, s := range l.secrets {
				if s.Name == ref.Name && len(s.Data[ref.Key]) > 0 {
					return string(s.Data[ref.Key]), true
				}
			}
		}
	}
	return "", false
}
