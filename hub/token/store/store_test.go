// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kubenest/kubenest/hub/secret"
	"github.com/kubenest/kubenest/hub/token"
	"github.com/kubenest/kubenest/hub/token/store"
)

var api client.WithWatch

func TestStore(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not say where a kube-apiserver is")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Store")
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

// journal keeps what is logged.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) into(ctx context.Context) context.Context {
	return log.IntoContext(ctx, funcr.New(func(_, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, args)
	}, funcr.Options{}))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

var _ = Describe("Store", func() {
	var (
		ref  types.NamespacedName
		logs *journal
	)

	BeforeEach(func(ctx SpecContext) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}
		Expect(api.Create(ctx, namespace)).To(Succeed())
		ref = types.NamespacedName{Namespace: namespace.Name, Name: store.DefaultSecret}
		logs = &journal{}
	})

	held := func(ctx context.Context) *corev1.Secret {
		GinkgoHelper()
		var s corev1.Secret
		Expect(api.Get(ctx, ref, &s)).To(Succeed())
		return &s
	}
	edit := func(ctx context.Context, change func(data map[string][]byte)) {
		GinkgoHelper()
		s := held(ctx)
		change(s.Data)
		Expect(api.Update(ctx, s)).To(Succeed())
	}
	open := func(ctx context.Context) *store.Store {
		GinkgoHelper()
		s, err := store.Open(logs.into(ctx), api, ref, records)
		Expect(err).NotTo(HaveOccurred())
		return s
	}

	It("makes keys on the very first start, and finds them on the next", func(ctx SpecContext) {
		first, err := store.Open(logs.into(ctx), api, ref, noRecords)
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Keyset().Issuer()).To(MatchRegexp(`^kubenest/[0-9a-f-]{36}$`))
		Expect(first.Keyset().KeyIDs()).To(HaveLen(1))
		Expect(held(ctx).Data).To(HaveKey(first.Keyset().SigningKeyID() + ".pem"))

		again, err := store.Open(ctx, api, ref, records)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Keyset().Equal(first.Keyset())).To(BeTrue())

		minted, _, err := first.Keyset().Mint("c", 1, time.Hour, time.Now())
		Expect(err).NotTo(HaveOccurred())
		_, _, err = again.Keyset().Verify(minted.Reveal(), time.Now())
		Expect(err).NotTo(HaveOccurred(), "a restart locks nobody out")
		Expect(logs.String()).NotTo(ContainSubstring("PRIVATE"))
	})

	It("lets replicas that start at once agree", func(ctx SpecContext) {
		var wg sync.WaitGroup
		stores := make([]*store.Store, 8)
		for i := range stores {
			wg.Go(func() {
				defer GinkgoRecover()
				var err error
				stores[i], err = store.Open(ctx, api, ref, noRecords)
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		for _, s := range stores {
			Expect(s.Keyset().Equal(stores[0].Keyset())).To(BeTrue())
		}
	})

	It("refuses to start without keys that tokens in the field rely on, and says what to do", func(ctx SpecContext) {
		_, err := store.Open(ctx, api, ref, records)
		var lost *secret.LostError
		Expect(errors.As(err, &lost)).To(BeTrue())
		Expect(err).To(MatchError(And(ContainSubstring(ref.String()), ContainSubstring("Restore the Secret from a backup"),
			ContainSubstring("kubectl -n "+ref.Namespace+" create secret generic "+ref.Name))))
		Expect(apierrors.IsNotFound(api.Get(ctx, ref, &corev1.Secret{}))).To(BeTrue(), "nothing was made")

		By("not starting either when it cannot be told")
		_, err = store.Open(ctx, api, ref, func(context.Context) (bool, error) { return false, errors.New("no list today") })
		Expect(err).To(MatchError(ContainSubstring("no list today")))
		Expect(apierrors.IsNotFound(api.Get(ctx, ref, &corev1.Secret{}))).To(BeTrue())
	})

	It("makes new keys into an empty Secret, which is a person's word", func(ctx SpecContext) {
		Expect(api.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}})).To(Succeed())
		s := open(ctx)
		Expect(held(ctx).Data).To(HaveKey(s.Keyset().SigningKeyID() + ".pem"))
	})

	DescribeTable("refuses a Secret that cannot be used", func(ctx SpecContext, data map[string][]byte, want string) {
		Expect(api.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: data})).To(Succeed())
		_, err := store.Open(ctx, api, ref, noRecords)
		Expect(err).To(MatchError(And(ContainSubstring(want), ContainSubstring(ref.String()), ContainSubstring("restore it from a backup"))))
		Expect(err.Error()).NotTo(ContainSubstring("hush"))
		Expect(held(ctx).Data).To(Equal(data), "nothing was changed")
	},
		Entry("no issuer", map[string][]byte{"a.pem": []byte("hush")}, `entry "issuer" is missing`),
		Entry("no keys", map[string][]byte{"issuer": []byte("i"), "a.pme": []byte("hush")}, `no entry ends in ".pem"`),
		Entry("a broken key", map[string][]byte{"issuer": []byte("i"), "a.pem": []byte("hush")}, "key a: not PEM"),
	)

	Describe("while it runs", func() {
		var (
			s       *store.Store
			changes atomic.Int32
		)

		BeforeEach(func(ctx SpecContext) {
			_, err := store.Open(ctx, api, ref, noRecords)
			Expect(err).NotTo(HaveOccurred())
			s = open(ctx)
			changes.Store(0)
			s.OnChange(func() { changes.Add(1) })
			running, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- s.Run(running) }()
			DeferCleanup(func() {
				stop()
				Eventually(done).Should(Receive(BeNil()))
			})
		})

		addKey := func(ctx context.Context) string {
			GinkgoHelper()
			kid, block, err := token.NewKey(time.Now().Add(time.Hour))
			Expect(err).NotTo(HaveOccurred())
			edit(ctx, func(data map[string][]byte) { data[kid+".pem"] = block })
			return kid
		}

		It("uses an added key, and forgets a removed one, once each", func(ctx SpecContext) {
			old := s.Keyset()
			kid := addKey(ctx)
			Eventually(func() string { return s.Keyset().SigningKeyID() }).Should(Equal(kid))
			Expect(s.Keyset().KeyIDs()).To(HaveLen(2))
			Eventually(changes.Load).Should(BeEquivalentTo(1))

			edit(ctx, func(data map[string][]byte) { delete(data, old.SigningKeyID()+".pem") })
			Eventually(func() []string { return s.Keyset().KeyIDs() }).Should(HaveExactElements(kid))
			Eventually(changes.Load).Should(BeEquivalentTo(2))
			Expect(logs.String()).NotTo(ContainSubstring("PRIVATE"))
		})

		DescribeTable("keeps what works, and says so", func(ctx SpecContext, spoil func(data map[string][]byte), want string) {
			before, good := s.Keyset(), held(ctx).Data
			edit(ctx, spoil)
			Eventually(logs.String).Should(ContainSubstring(want))
			Expect(s.Keyset()).To(BeIdenticalTo(before))
			Expect(changes.Load()).To(BeZero())

			By("taking the next change that can be used")
			edit(ctx, func(data map[string][]byte) {
				clear(data)
				maps.Copy(data, good)
			})
			kid := addKey(ctx)
			Eventually(func() string { return s.Keyset().SigningKeyID() }).Should(Equal(kid))
			Eventually(changes.Load).Should(BeEquivalentTo(1))
		},
			Entry("a broken key", func(data map[string][]byte) { data["zzz.pem"] = []byte("hush") }, "key zzz: not PEM"),
			Entry("no keys left", func(data map[string][]byte) {
				for entry := range data {
					if entry != "issuer" {
						delete(data, entry)
					}
				}
			}, "no entry ends in"),
			Entry("another issuer", func(data map[string][]byte) { data["issuer"] = []byte("kubenest/other") }, "would void every token"),
		)

		It("keeps its keys when the Secret is deleted, makes no new ones, and takes the restored Secret", func(ctx SpecContext) {
			before, good := s.Keyset(), held(ctx).Data
			Expect(api.Delete(ctx, held(ctx))).To(Succeed())
			Eventually(logs.String).Should(ContainSubstring("Restore the Secret"))
			Expect(s.Keyset()).To(BeIdenticalTo(before))
			Expect(apierrors.IsNotFound(api.Get(ctx, ref, &corev1.Secret{}))).To(BeTrue())

			Expect(api.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: good})).To(Succeed())
			kid := addKey(ctx)
			Eventually(func() string { return s.Keyset().SigningKeyID() }).Should(Equal(kid))
		})
	})
})
