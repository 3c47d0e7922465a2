// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	way "github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/inputs"
)

// stored is the answer to a delivery that was stored.
func stored(d *wire.Deliver) wire.Delivered {
	return wire.Delivered{Stack: d.Stack, Delivery: d.Delivery}
}

// withField adds a field that this program does not know, at a path.
func withField(spec kubenestv1.StackDeploySpec, path ...string) map[string]any {
	data, err := json.Marshal(spec)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]any{}
	Expect(json.Unmarshal(data, &out)).To(Succeed())
	at := out
	for _, field := range path {
		if field == "0" {
			continue
		}
		switch next := at[field].(type) {
		case []any:
			at = next[0].(map[string]any)
		case map[string]any:
			at = next
		}
	}
	at["fromTheFuture"] = true
	return out
}

var _ = Describe("Deliver", func() {
	It("stores a copy and its inputs, and the same again", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		in, listed := exportsInput("r1")
		spec := appSpec("shop", listing(listed))
		d := delivery("shop", 3, spec, in)
		for range 2 {
			Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		}
		s := o.copy(ctx, "shop")
		Expect(s.Spec.Source).To(HaveValue(Equal(kubenestv1.StackSource{
			Namespace: "acme", Name: "shop", UID: d.UID, Generation: 3, Digest: d.Digest,
		})))
		Expect(s.Generation).To(BeEquivalentTo(1), "the same again changes nothing")
		Expect(s.Labels).To(HaveKeyWithValue(kubenestv1.AppLabel, "shop"))
		s.Spec.Source = nil
		Expect(s.Spec).To(Equal(spec))
		Expect(o.inputs.Get(ctx, o.local("shop"), listed)).To(Equal(in.Data))

		By("removing what a later one leaves out")
		in2, listed2 := exportsInput("r2")
		d = delivery("shop", 4, appSpec("shop", listing(listed2)), in2)
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		Expect(o.kept(ctx)).To(Equal([]string{"r2"}))
		_, err := o.inputs.Get(ctx, o.local("shop"), listed)
		Expect(err).To(MatchError(inputs.ErrMissing))
		d = delivery("shop", 5, appSpec("shop", func(s *kubenestv1.StackDeploySpec) { s.Components = s.Components[:1] }))
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		Expect(o.copy(ctx, "shop").Spec.Components).To(HaveLen(1))
		Expect(o.kept(ctx)).To(BeEmpty())
	})

	It("keeps the credential that a publication is taken back with", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		in, listed := exportsInput("r1")
		listed.Kind, in.Kind = kubenestv1.InputGitCredential, string(kubenestv1.InputGitCredential)
		d := delivery("shop", 1, appSpec("shop", listing(listed)), in)
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		published, err := (&way.Published{Credential: &listed}).Annotation()
		Expect(err).NotTo(HaveOccurred())
		annotate := func(value any) {
			GinkgoHelper()
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{way.PublishedAnnotation: value}}})
			Expect(err).NotTo(HaveOccurred())
			Expect(api.Patch(ctx, o.copy(ctx, "shop"), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		}
		annotate(published)
		d = delivery("shop", 2, appSpec("shop"))
		Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		_, err = o.Inventory(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(o.inputs.Get(ctx, o.local("shop"), listed)).To(Equal(in.Data))

		By("until it has been taken back")
		annotate(nil)
		_, err = o.Inventory(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(o.kept(ctx)).To(BeEmpty())
	})

	DescribeTable("refuses what the cluster's schema would lose", func(ctx SpecContext, path ...string) {
		o := newOperator(interceptor.Funcs{})
		in, listed := exportsInput("r1")
		first := delivery("shop", 1, appSpec("shop", listing(listed)), in)
		Expect(o.Deliver(ctx, first)).To(Equal(stored(first)))
		in2, listed2 := exportsInput("r2")
		d := delivery("shop", 2, withField(appSpec("shop", listing(listed2)), path...), in2)
		answer := o.Deliver(ctx, d)
		Expect(answer.Failure).To(Equal(wire.DeliverySchema), answer.Message)
		Expect(answer.Message).To(And(ContainSubstring("fromTheFuture"), ContainSubstring("upgrade the operator")))
		Expect(o.copy(ctx, "shop").Spec.Source.Generation).To(BeEquivalentTo(1))
		Expect(o.inputs.Get(ctx, o.local("shop"), listed)).To(Equal(in.Data), "what runs keeps its inputs")
		Expect(o.kept(ctx)).To(Equal([]string{"r1"}), "and nothing is left of the other")
	},
		Entry("at the top"),
		Entry("in a component", "components", "0", "workloadSpec"),
	)

	It("refuses a field that an older CRD lacks", Serial, func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		crds, err := client.New(apiConfig, client.Options{Scheme: crdScheme()})
		Expect(err).NotTo(HaveOccurred())
		var crd apiextensionsv1.CustomResourceDefinition
		Expect(crds.Get(ctx, client.ObjectKey{Name: "stackdeploys.kubenest.io"}, &crd)).To(Succeed())
		newest := crd.DeepCopy()
		delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "restartedAt")
		Expect(crds.Update(ctx, &crd)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			newest.ResourceVersion = crd.ResourceVersion
			Expect(crds.Update(ctx, newest)).To(Succeed())
			d := delivery("restored", 1, appSpec("shop", restarted))
			Eventually(func() wire.Delivered { return o.Deliver(ctx, d) }).Should(Equal(stored(d)))
		})
		d := delivery("shop", 1, appSpec("shop", restarted))
		Eventually(func() wire.DeliveryFailure { return o.Deliver(ctx, d).Failure }).Should(Equal(wire.DeliverySchema))
		Expect(o.Deliver(ctx, d).Message).To(ContainSubstring("restartedAt"))
	})

	It("refuses a newer schema before anything is written", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		}, Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			panic("nothing may be written")
		}})
		d := delivery("shop", 1, appSpec("shop"))
		d.Schema++
		answer := o.Deliver(ctx, d)
		Expect(answer.Failure).To(Equal(wire.DeliverySchema))
		Expect(answer.Message).To(ContainSubstring("upgrade the operator"))
	})

	DescribeTable("refuses what the API server refuses", func(ctx SpecContext, spec any, words string) {
		answer := newOperator(interceptor.Funcs{}).Deliver(ctx, delivery("shop", 1, spec))
		Expect(answer.Failure).To(Equal(wire.DeliveryInvalid), answer.Message)
		Expect(answer.Message).To(ContainSubstring(words))
		Expect(len(answer.Message)).To(BeNumerically("<=", wire.MaxText))
	},
		Entry("no object", []int{1}, "can not be read"),
		Entry("another type", map[string]any{"namespace": 1}, "can not be read"),
		Entry("null", nil, "can not be read"),
		Entry("what CEL forbids", map[string]any{
			"clusterID": "c", "namespace": "n", "project": map[string]any{"namespace": "a", "name": "b"},
		}, "either namespaceSettings or components"),
		Entry("a delivery that there is not", map[string]any{
			"clusterID": "c", "namespace": "n", "project": map[string]any{"namespace": "a", "name": "b"},
			"namespaceSettings": map[string]any{}, "delivery": "by pigeon",
		}, "by pigeon"),
		Entry("2 MB", appSpec("shop", values(map[string]any{"big": strings.Repeat("x", 2_000_000)})), "1.5 MiB"),
		Entry("3.5 MB", appSpec("shop", values(map[string]any{"big": strings.Repeat("x", 3_500_000)})), "1.5 MiB"),
	)

	It("refuses an input that is too large, and says nothing of it", func(ctx SpecContext) {
		in, listed := exportsInput("r1")
		in.Data["dsn"] = []byte(strings.Repeat(password, 50_000))
		answer := newOperator(interceptor.Funcs{}).Deliver(ctx, delivery("shop", 1, appSpec("shop", listing(listed)), in))
		Expect(answer.Failure).To(Equal(wire.DeliveryInvalid), answer.Message)
		Expect(answer.Message).NotTo(ContainSubstring("hunter2"))
		Expect(answer.Message).To(ContainSubstring(listed.Name))
	})

	It("stores a spec of 1 MB", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		many := map[string]any{}
		for i := range 8000 {
			many[fmt.Sprintf("key-%04d", i)] = strings.Repeat("x", 100)
		}
		for name, v := range map[string]map[string]any{"one": {"big": strings.Repeat("x", 1<<20)}, "many": many} {
			d := delivery(name, 1, appSpec("shop", values(v)))
			Expect(len(d.Spec)).To(BeNumerically(">", 850_000))
			Expect(o.Deliver(ctx, d)).To(Equal(stored(d)))
		}
		inventory, err := o.Inventory(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(inventory.Stacks).To(HaveLen(2))
	})

	It("takes what the hub says now, whichever generation and object that is of", func(ctx SpecContext) {
		o := newOperator(interceptor.Funcs{})
		later := delivery("shop", 7, appSpec("shop"))
		Expect(o.Deliver(ctx, later)).To(Equal(stored(later)))
		earlier := delivery("shop", 6, appSpec("shop", restarted)) // of a restored hub
		Expect(o.Deliver(ctx, earlier)).To(Equal(stored(earlier)))
		Expect(o.copy(ctx, "shop").Spec.RestartedAt).NotTo(BeNil())
		Expect(o.copy(ctx, "shop").Spec.Source.Generation).To(Equal(int64(6)))

		other := delivery("shop", 6, appSpec("shop")) // the same generation, another content
		Expect(o.Deliver(ctx, other)).To(Equal(stored(other)))
		Expect(o.copy(ctx, "shop").Spec.RestartedAt).To(BeNil())

		rebuilt := delivery("shop", 1, appSpec("shop"))
		rebuilt.UID = "7d1f5bb4-0000-4000-8000-00000000000f"
		Expect(o.Deliver(ctx, rebuilt)).To(Equal(stored(rebuilt)))
		Expect(o.copy(ctx, "shop").Spec.Source.UID).To(Equal(rebuilt.UID))
	})

	It("ends in the same after being killed between any two writes", func(ctx SpecContext) {
		var left int
		errKilled := errors.New("killed")
		write := func() error {
			if left--; left < 0 {
				return errKilled
			}
			return nil
		}
		o := newOperator(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, a runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if err := write(); err != nil {
					return err
				}
				return c.Apply(ctx, a, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, a client.Object, opts ...client.DeleteOption) error {
				if err := write(); err != nil {
					return err
				}
				return c.Delete(ctx, a, opts...)
			},
		})
		for i := range 6 {
			name := fmt.Sprintf("shop-%d", i)
			in, listed := exportsInput("r1")
			first := delivery(name, 1, appSpec("shop", listing(listed)), in)
			left = 100
			Expect(o.Deliver(ctx, first)).To(Equal(stored(first)))

			in2, listed2 := exportsInput("r2")
			second := delivery(name, 2, appSpec("shop", listing(listed2)), in2)
			left = i
			if answer := o.Deliver(ctx, second); answer.Failure != "" {
				Expect(answer.Failure).To(Equal(wire.DeliveryUnavailable))
			}
			// Whatever is in force has its inputs.
			inForce := o.copy(ctx, name).Spec.Inputs[0]
			_, err := o.inputs.Get(ctx, o.local(name), inForce)
			Expect(err).NotTo(HaveOccurred())
			left = 100
			Expect(o.Deliver(ctx, second)).To(Equal(stored(second)))
			Expect(o.inputs.Get(ctx, o.local(name), listed2)).To(Equal(in2.Data))
			_, err = o.inputs.Get(ctx, o.local(name), listed)
			Expect(err).To(MatchError(inputs.ErrMissing))
		}
	})

	DescribeTable("tells errors that pass", func(ctx SpecContext, err error) {
		o := newOperator(interceptor.Funcs{
			Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
				return err
			},
		})
		Expect(o.Deliver(ctx, delivery("shop", 1, appSpec("shop"))).Failure).To(Equal(wire.DeliveryUnavailable))
	},
		Entry("forbidden", apierrors.NewForbidden(schema.GroupResource{Resource: "stackdeploys"}, "shop", errors.New("no rights"))),
		Entry("too busy", apierrors.NewTooManyRequests("busy", 1)),
		Entry("a timeout", apierrors.NewTimeoutError("slow", 1)),
		Entry("no connection", errors.New("dial tcp: connection refused")),
		Entry("internal", apierrors.NewInternalError(errors.New("etcdserver: leader changed"))),
	)
})

var _ = Describe("inputs", func() {
	It("are kept apart", func(ctx SpecContext) {
		store := inputs.Store{Client: api, Namespace: newNamespace("inputs-")}
		in := kubenestv1.StackInput{Name: "x", Kind: kubenestv1.InputExports, Revision: "1"}
		chart := kubenestv1.StackInput{Name: "x", Kind: kubenestv1.InputChart, Revision: "1"}
		put := func(local string, in kubenestv1.StackInput, data string) {
			Expect(store.Put(ctx, local, in, map[string][]byte{"x": []byte(data)})).To(Succeed())
		}
		long := strings.Repeat("long-name.", 20)
		put("a", in, "a")
		put("b", in, "b")
		put("a", chart, "chart")
		put(long+"a", in, "long a")
		put(long+"b", in, "long b")
		for local, want := range map[string]string{"a": "a", "b": "b", long + "a": "long a", long + "b": "long b"} {
			Expect(store.Get(ctx, local, in)).To(Equal(map[string][]byte{"x": []byte(want)}))
		}
		Expect(store.Prune(ctx, long+"a", nil)).To(Succeed())
		Expect(store.Prune(ctx, "a", []kubenestv1.StackInput{chart})).To(Succeed())
		for local, missing := range map[string]bool{"a": true, "b": false, long + "a": true, long + "b": false} {
			_, err := store.Get(ctx, local, in)
			Expect(errors.Is(err, inputs.ErrMissing)).To(Equal(missing), local)
		}
		Expect(store.Get(ctx, "a", chart)).To(HaveKeyWithValue("x", []byte("chart")))
		_, err := store.Get(ctx, "b", kubenestv1.StackInput{Name: "x", Kind: kubenestv1.InputExports})
		Expect(err).To(MatchError(inputs.ErrMissing), "one without content yet")
		Expect(store.Put(ctx, "b", kubenestv1.StackInput{Name: "x", Kind: kubenestv1.InputExports}, nil)).NotTo(Succeed())
		Expect(store.Sweep(ctx, func(local string, _ kubenestv1.StackInput) bool { return local == "b" })).To(Succeed())
		_, err = store.Get(ctx, "a", chart)
		Expect(err).To(MatchError(inputs.ErrMissing))
		_, err = store.Get(ctx, "b", in)
		Expect(err).NotTo(HaveOccurred())
	})
})

func restarted(s *kubenestv1.StackDeploySpec) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s.RestartedAt = &at
}

func values(v map[string]any) func(*kubenestv1.StackDeploySpec) {
	return func(s *kubenestv1.StackDeploySpec) {
		data, err := json.Marshal(maps.Clone(v))
		Expect(err).NotTo(HaveOccurred())
		s.Components[1].AddonSpec.Values = &runtime.RawExtension{Raw: data}
	}
}

func crdScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	Expect(apiextensionsv1.AddToScheme(s)).To(Succeed())
	return s
}
