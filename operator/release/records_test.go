// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubenest/kubenest/operator/stack"
)

// forged is a Secret like a revision's, of text that is repeated.
func forged(tb testing.TB, version int, text string, times int) *corev1.Secret {
	tb.Helper()
	g := NewWithT(tb)
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	g.Expect(err).NotTo(HaveOccurred())
	block := strings.Repeat(text, 1+1<<20/len(text))
	for left := times * len(text); left > 0; left -= len(block) {
		_, err := zip.Write([]byte(block[:min(left, len(block))]))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(zip.Close()).To(Succeed())
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprintf("sh.helm.release.v1.shop-db.v%d", version),
		Labels: map[string]string{"owner": "helm", "name": "shop-db", "version": fmt.Sprint(version), "status": "deployed"},
	}, Data: map[string][]byte{recordKey: []byte(base64.StdEncoding.EncodeToString(out.Bytes()))}}
}

func recordsOf(secrets ...apiruntime.Object) *storage.Storage {
	return storage.Init(driver.NewSecrets(&records{fake.NewClientset(secrets...).CoreV1().Secrets("shop")}))
}

func TestForgedRecords(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		times int
	}{
		"of blanks":        {" ", 600 << 20},
		"of empty objects": {"{},", 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			releases := recordsOf(forged(t, 99, test.text, test.times))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := releases.History("shop-db")
			runtime.ReadMemStats(&after)
			var problem *stack.Problem
			g.Expect(errors.As(err, &problem)).To(BeTrue(), "%v", err)
			g.Expect(problem.Message).To(And(ContainSubstring("Secret sh.helm.release.v1.shop-db.v99 in namespace shop"), ContainSubstring("delete it")))
			g.Expect((after.TotalAlloc-before.TotalAlloc)>>20).To(BeNumerically("<", 16), "MiB")
			_, err = releases.Get("shop-db", 99)
			g.Expect(errors.As(err, &problem)).To(BeTrue(), "%v", err)
			_, err = releases.Deployed("shop-db")
			g.Expect(errors.As(err, &problem)).To(BeTrue(), "%v", err)
		})
	}
}

func TestRecordsAreBounded(t *testing.T) {
	g := NewWithT(t)
	var many []apiruntime.Object
	for i := range maxRecords + 1 {
		many = append(many, forged(t, i, "x", 1))
	}
	_, err := recordsOf(many...).History("shop-db")
	g.Expect(err).To(MatchError(ContainSubstring("over 40 Secrets of Helm releases")))

	var large []apiruntime.Object
	for i := range 1 + maxHistoryBytes/maxRecord {
		large = append(large, forged(t, i, " ", maxRecord))
	}
	_, err = recordsOf(large...).History("shop-db")
	g.Expect(err).To(MatchError(ContainSubstring("over 128 MiB together")))
	g.Expect(recordsOf(large[1:]...).History("shop-db")).To(BeEmpty(), "Helm leaves out what is no release")
}

func TestRecordsOfHelm(t *testing.T) {
	g := NewWithT(t)
	releases := recordsOf(forged(t, 7, "x", 1))
	r := &helmrelease.Release{
		Name: "shop-db", Namespace: "shop", Version: 8, Info: &helmrelease.Info{Status: common.StatusDeployed},
		Manifest: strings.Repeat("a: \"\\{,[\n", maxParts), // in quotes it is text
	}
	g.Expect(releases.Create(r)).To(Succeed())
	g.Expect(releases.History("shop-db")).To(HaveLen(1))
	r.Version, r.Manifest = 9, strings.Repeat("x", maxRecord)
	var problem *stack.Problem
	g.Expect(errors.As(releases.Create(r), &problem)).To(BeTrue(), "what could not be read again is not stored")
}
