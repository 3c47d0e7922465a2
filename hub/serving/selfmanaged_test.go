// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kubenest/kubenest/hub/secret"
	"github.com/kubenest/kubenest/hub/serving"
)

var api client.WithWatch

func TestSelfManaged(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where a kube-apiserver is")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Self-managed TLS")
}

var _ = BeforeSuite(func() {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	api, err = client.NewWithWatch(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
})

func noRecords(context.Context) (bool, error) { return false, nil }
func records(context.Context) (bool, error)   { return true, nil }

var _ = Describe("SelfManaged", func() {
	var (
		ref   types.NamespacedName
		hosts = []string{"hub.example.com", "127.0.0.1"}
		now   = time.Now()
	)

	BeforeEach(func(ctx SpecContext) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}
		Expect(api.Create(ctx, namespace)).To(Succeed())
		ref = types.NamespacedName{Namespace: namespace.Name, Name: serving.DefaultSecret}
	})

	held := func(ctx context.Context) *corev1.Secret {
		GinkgoHelper()
		var s corev1.Secret
		Expect(api.Get(ctx, ref, &s)).To(Succeed())
		return &s
	}
	edit := func(ctx context.Context, changes map[string][]byte) {
		GinkgoHelper()
		s := held(ctx)
		maps.Copy(s.Data, changes)
		Expect(api.Update(ctx, s)).To(Succeed())
	}
	another := func() map[string][]byte {
		GinkgoHelper()
		ca, err := serving.MakeAuthority(now)
		Expect(err).NotTo(HaveOccurred())
		return ca
	}
	run := func(source *serving.Source, logs *journal) {
		running, stop := context.WithCancel(logs.into(context.Background()))
		done := make(chan error, 1)
		go func() { done <- source.Run(running) }()
		DeferCleanup(func() {
			stop()
			Eventually(done, "10s").Should(Receive(BeNil()))
		})
	}
	serve := func(source *serving.Source) string {
		address, stop := listen(source)
		DeferCleanup(stop)
		return address
	}

	It("makes a CA once, for all replicas, which operators accept", func(ctx SpecContext) {
		sources := make([]*serving.Source, 6)
		var wg sync.WaitGroup
		for i := range sources {
			wg.Go(func() {
				defer GinkgoRecover()
				var err error
				sources[i], err = serving.SelfManaged(ctx, api, ref, hosts, noRecords)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		for _, source := range sources {
			Expect(source.Bundle()).To(Equal(string(held(ctx).Data["ca.crt"])))
			address := serve(source)
			for _, host := range hosts {
				_, err := shake(address, host, sources[0].Bundle(), now)
				Expect(err).NotTo(HaveOccurred(), host)
			}
			_, err := shake(address, "other.example.com", sources[0].Bundle(), now)
			Expect(err).To(HaveOccurred())
		}

		By("finding it again at the next start")
		again, err := serving.SelfManaged(ctx, api, ref, hosts, records)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Bundle()).To(Equal(sources[0].Bundle()))
	})

	It("refuses to make a CA anew that operators rely on", func(ctx SpecContext) {
		_, err := serving.SelfManaged(ctx, api, ref, hosts, records)
		var lost *secret.LostError
		Expect(errors.As(err, &lost)).To(BeTrue(), "%v", err)
	})

	It("refuses to make a certificate for nobody", func(ctx SpecContext) {
		_, err := serving.SelfManaged(ctx, api, ref, nil, noRecords)
		Expect(err).To(MatchError(ContainSubstring("no host")))
	})

	DescribeTable("refuses a Secret that cannot be used", func(ctx SpecContext, spoil func(ca map[string][]byte), want string) {
		ca := another()
		spoil(ca)
		Expect(api.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: ca})).To(Succeed())
		_, err := serving.SelfManaged(ctx, api, ref, hosts, noRecords)
		Expect(err).To(MatchError(And(ContainSubstring(want), ContainSubstring(ref.String()), ContainSubstring("restore it from a backup"))))
	},
		Entry("no key", func(ca map[string][]byte) { delete(ca, "tls.key") }, "entries tls.crt and tls.key"),
		Entry("no bundle", func(ca map[string][]byte) { delete(ca, "ca.crt") }, "entry ca.crt holds no certificate"),
		Entry("a bundle without it", func(ca map[string][]byte) { ca["ca.crt"] = another()["ca.crt"] }, "is not in the bundle"),
		Entry("not a CA", func(ca map[string][]byte) {
			cert, key, err := serving.Sign(another(), hosts, now)
			Expect(err).NotTo(HaveOccurred())
			ca["tls.crt"], ca["tls.key"], ca["ca.crt"] = cert, key, cert
		}, "is not a CA's"),
		Entry("another's key", func(ca map[string][]byte) { ca["tls.key"] = another()["tls.key"] }, "does not match"),
	)

	It("replaces its CA without losing an operator", func(ctx SpecContext) {
		logs, told := &journal{}, &bundles{}
		source, err := serving.SelfManaged(ctx, api, ref, hosts, noRecords)
		Expect(err).NotTo(HaveOccurred())
		source.OnBundleChange(told.tell)
		run(source, logs)
		address := serve(source)
		first, next := held(ctx).Data, another()
		old, both := string(first["ca.crt"]), string(first["ca.crt"])+string(next["ca.crt"])
		before, err := shake(address, hosts[0], old, now)
		Expect(err).NotTo(HaveOccurred())

		By("announcing the next CA while the old one signs")
		edit(ctx, map[string][]byte{"ca.crt": []byte(both)})
		Eventually(told.all).Should(HaveExactElements(both))
		Expect(source.Bundle()).To(Equal(both))
		still, err := shake(address, hosts[0], old, now)
		Expect(err).NotTo(HaveOccurred(), "an operator with only the old CA")
		Expect(still.Equal(before)).To(BeTrue(), "no new certificate for a changed bundle")

		By("keeping changes out that no operator would accept")
		edit(ctx, map[string][]byte{"ca.crt": next["ca.crt"]})
		Eventually(logs.String).Should(ContainSubstring("is not in the bundle"))
		Expect(source.Bundle()).To(Equal(both))
		_, err = shake(address, hosts[0], old, now)
		Expect(err).NotTo(HaveOccurred())

		By("signing with the next CA")
		edit(ctx, map[string][]byte{"ca.crt": []byte(both), "tls.crt": next["tls.crt"], "tls.key": next["tls.key"]})
		Eventually(func() error {
			_, err := shake(address, hosts[0], string(next["ca.crt"]), now)
			return err
		}).Should(Succeed())
		_, err = shake(address, hosts[0], old, now)
		Expect(err).To(HaveOccurred())
		Expect(told.all()).To(HaveLen(1))

		By("dropping the old CA")
		edit(ctx, map[string][]byte{"ca.crt": next["ca.crt"]})
		Eventually(told.all).Should(HaveExactElements(both, string(next["ca.crt"])))

		By("going on when the Secret is deleted")
		Expect(api.Delete(ctx, held(ctx))).To(Succeed())
		Eventually(logs.String).Should(ContainSubstring("Restore the Secret"))
		_, err = shake(address, hosts[0], string(next["ca.crt"]), now)
		Expect(err).NotTo(HaveOccurred())
		Expect(logs.String()).NotTo(ContainSubstring("PRIVATE"))
	})

	It("renews its certificate after two thirds of its life", func(ctx SpecContext) {
		clock := clocktesting.NewFakeClock(now)
		source, err := serving.SelfManagedWithClock(ctx, api, ref, hosts, clock)
		Expect(err).NotTo(HaveOccurred())
		run(source, &journal{})
		address := serve(source)
		shown := func() []byte {
			certificate, err := shake(address, hosts[0], source.Bundle(), clock.Now())
			if err != nil {
				return []byte(err.Error())
			}
			return certificate.Raw
		}
		first := shown()
		Eventually(clock.HasWaiters).Should(BeTrue())
		clock.Step(59 * 24 * time.Hour)
		Consistently(shown, "200ms").Should(Equal(first))
		Eventually(func() bool {
			clock.Step(time.Hour)
			return bytes.Equal(shown(), first)
		}).Should(BeFalse())
		Expect(clock.Now()).To(BeTemporally("<", now.Add(62*24*time.Hour)))
		clock.Step(89 * 24 * time.Hour)
		Eventually(func() error {
			_, err := shake(address, hosts[0], source.Bundle(), clock.Now())
			return err
		}).Should(Succeed(), "the next one lives as long")
	})
})
