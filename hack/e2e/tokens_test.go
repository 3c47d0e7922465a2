// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hack/environment"
	"github.com/kubenest/kubenest/hub/token"
)

const (
	hubNamespace = "kubenest-system"
	signingKeys  = "kubenest-hub-signing-keys"
	hubCA        = "kubenest-hub-ca"
)

// ownSecret reads one of the hub's own Secrets, fit to be created again.
func ownSecret(ctx context.Context, name string) *corev1.Secret {
	GinkgoHelper()
	var s corev1.Secret
	Expect(env.Client().Get(ctx, client.ObjectKey{Namespace: hubNamespace, Name: name}, &s)).To(Succeed())
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, Annotations: s.Annotations},
		Type:       s.Type, Data: s.Data,
	}
}

var _ = Describe("Raising the token floor", func() {
	It("closes the session, and the new token in the Secret brings it back", func(ctx SpecContext) {
		dev := env.Cluster("dev")
		rememberTokens(ctx)
		was := record(ctx, dev)
		floor := was.Status.Token.Generation + 1
		pid := dev.Operator().PID()
		_, err := env.Kubectl(ctx, "", "patch", "mc", "-n", environment.Organization, "dev", "--type=merge",
			"-p", fmt.Sprintf(`{"spec":{"token":{"floor":%d}}}`, floor))
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, disconnected(dev, kubenestv1.ReasonTokenRevoked)).WithTimeout(soon).Should(Succeed())
		Eventually(func() int64 { return record(ctx, dev).Status.Token.Generation }).Should(BeNumerically(">=", floor))
		Expect(events(ctx, dev, kubenestv1.EventTokenRevoked)).NotTo(BeEmpty())

		Eventually(func(g Gomega) {
			claims, _, err := token.Peek(string(connectionSecret(ctx, dev).Data[kubenestv1.ConnectionKeyToken]))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(claims.Generation).To(BeNumerically(">=", floor))
		}).Should(Succeed())
		Expect(dev.Enrol(ctx)).To(Succeed())
		Eventually(ctx, connected(dev)).WithTimeout(soon).Should(Succeed())
		Expect(dev.Operator().PID()).To(Equal(pid), "the operator was not restarted")
		Expect(record(ctx, dev).Status.Session.TokenGeneration).To(BeNumerically(">=", floor))
	}, SpecTimeout(2*time.Minute))
})

// answer is what the hub says to a token.
type answer struct {
	status int
	body   string
}

// knock shows the hub a token as an operator would.
func knock(ctx context.Context, authorization string) answer {
	GinkgoHelper()
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(connectionSecret(ctx, env.Cluster("dev")).Data[kubenestv1.ConnectionKeyCA])).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, env.Hub().URL()+wire.Path, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	for key, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": wire.Subprotocol,
	} {
		request.Header.Set(key, value)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := (&http.Client{Transport: transport, Timeout: soon}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return answer{response.StatusCode, string(body)}
}

var _ = Describe("A token that is not good", func() {
	var (
		keys *corev1.Secret
		kid  string
	)

	BeforeEach(func(ctx SpecContext) {
		keys = ownSecret(ctx, signingKeys)
		for entry := range keys.Data {
			if k, ok := strings.CutSuffix(entry, ".pem"); ok {
				kid = max(kid, k)
			}
		}
		Expect(kid).NotTo(BeEmpty())
	})

	sign := func(audience string) string {
		block, _ := pem.Decode(keys.Data[kid+".pem"])
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		now := time.Now()
		unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
			"iss": string(keys.Data["issuer"]), "aud": []string{audience}, "sub": "6f1c2f0e-3b1d-4c57-9f5e-0a8d3f6b2c11",
			"jti": "e2e", "gen": 1, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		})
		unsigned.Header["kid"] = kid
		raw, err := unsigned.SignedString(key)
		Expect(err).NotTo(HaveOccurred())
		return raw
	}

	It("gets one and the same answer for whatever does not verify, and the hub's log tells why", func(ctx SpecContext) {
		good := string(connectionSecret(ctx, env.Cluster("dev")).Data[kubenestv1.ConnectionKeyToken])
		log := logSince(env.Hub().Process())
		wrong := map[string]string{
			"malformed": "Bearer garbage",
			"audience":  "Bearer " + sign("somebody-else"),
			"signature": "Bearer " + good[:strings.LastIndexByte(good, '.')+1] + strings.Repeat("A", 86),
		}
		answers := map[answer]bool{knock(ctx, ""): true}
		for reason, authorization := range wrong {
			answers[knock(ctx, authorization)] = true
			Eventually(log).Should(ContainSubstring("token rejected ("+reason+")"), "the log of the hub")
		}
		Expect(answers).To(HaveLen(1), "%v", answers)
		for a := range answers {
			Expect(a.status).To(Equal(http.StatusUnauthorized))
			Expect(a.body).To(ContainSubstring(string(wire.ClassUnauthorized)))
		}
	}, SpecTimeout(time.Minute))

	It("is told when it has expired for too long", func(ctx SpecContext) {
		pems := map[string][]byte{}
		for entry, block := range keys.Data {
			if k, ok := strings.CutSuffix(entry, ".pem"); ok {
				pems[k] = block
			}
		}
		set, err := token.Parse(strings.TrimSpace(string(keys.Data["issuer"])), pems)
		Expect(err).NotTo(HaveOccurred())
		r := record(ctx, env.Cluster("dev"))
		const day = 24 * time.Hour
		old, _, err := set.Mint(r.Status.ClusterID, r.Status.Token.Generation, 10*day, time.Now().Add(-101*day))
		Expect(err).NotTo(HaveOccurred())
		log := logSince(env.Hub().Process())
		a := knock(ctx, "Bearer "+old.Reveal())
		Expect(a.status).To(Equal(http.StatusUnauthorized))
		Expect(a.body).To(ContainSubstring(string(wire.ClassExpired)))
		Eventually(log).Should(ContainSubstring("token rejected (expired)"))
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Tokens", func() {
	It("stand in no log, Event or status", func(ctx SpecContext) {
		rememberTokens(ctx)
		Expect(leakedTokens()).To(BeEmpty())
	}, SpecTimeout(time.Minute))
})

// signatures of all tokens that were ever in a Secret, which is the part of a
// token that nothing else has.
var signatures = map[string]bool{}

func rememberTokens(ctx context.Context) {
	GinkgoHelper()
	clients := []client.Client{env.Client()}
	for _, c := range env.Clusters() {
		clients = append(clients, c.Client())
	}
	for _, api := range clients {
		var list corev1.SecretList
		Expect(api.List(ctx, &list)).To(Succeed())
		for _, secret := range list.Items {
			raw := string(secret.Data[kubenestv1.ConnectionKeyToken])
			if i := strings.LastIndexByte(raw, '.'); i > 0 {
				signatures[raw[i+1:]] = true
			}
		}
	}
}

// leakedTokens names the places that hold a token's signature and should not.
func leakedTokens() []string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rememberTokens(ctx)
	Expect(signatures).NotTo(BeEmpty())
	places := map[string]string{}
	logs, err := filepath.Glob(filepath.Join(env.Dir(), "logs", "*"))
	Expect(err).NotTo(HaveOccurred())
	for _, log := range logs {
		text, err := os.ReadFile(log)
		Expect(err).NotTo(HaveOccurred())
		places[log] = string(text)
	}
	for _, kinds := range []string{"mc", "events", "leases.coordination.k8s.io"} {
		text, err := env.Kubectl(ctx, "", "get", kinds, "-A", "-o", "yaml")
		Expect(err).NotTo(HaveOccurred())
		places["hub: "+kinds] = text
		for _, c := range env.Clusters() {
			if kinds == "mc" {
				continue
			}
			text, err := c.Kubectl(ctx, "", "get", kinds, "-A", "-o", "yaml")
			Expect(err).NotTo(HaveOccurred())
			places[c.Name()+": "+kinds] = text
		}
	}
	var leaks []string
	for place, text := range places {
		for signature := range signatures {
			if strings.Contains(text, signature) || strings.Contains(text, signature[:24]) {
				leaks = append(leaks, place)
			}
		}
	}
	slices.Sort(leaks)
	return slices.Compact(leaks)
}

var _ = Describe("The hub's own Secrets", func() {
	It("are needed to start once records exist", func(ctx SpecContext) {
		keys := ownSecret(ctx, signingKeys)
		env.Hub().Stop(ctx)
		Expect(env.Client().Delete(ctx, keys.DeepCopy())).To(Succeed())
		starting, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		err := env.Hub().Start(starting)
		env.Hub().Process().Down()
		Expect(env.Client().Create(ctx, keys)).To(Succeed())
		Expect(err).To(MatchError(And(ContainSubstring("ended before it was ready"), ContainSubstring(signingKeys))))
		Expect(err).To(MatchError(ContainSubstring("backup")), "what to do is said")
		Expect(env.Hub().Start(ctx)).To(Succeed())
		for _, c := range env.Clusters() {
			Eventually(ctx, connected(c)).WithTimeout(slowEnd).Should(Succeed())
		}
	}, SpecTimeout(3*time.Minute))

	It("are all it takes to rebuild a hub: records with their ids bring every operator back", func(ctx SpecContext) {
		rememberTokens(ctx)
		kept := []*corev1.Secret{ownSecret(ctx, signingKeys), ownSecret(ctx, hubCA)}
		ids, starts := map[string]string{}, map[string]int{}
		for _, c := range env.Clusters() {
			ids[c.Name()], starts[c.Name()] = record(ctx, c).Status.ClusterID, c.Operator().Starts()
		}
		env.Hub().Stop(ctx)
		env.Management().Stop(ctx)
		Expect(env.Management().Wipe()).To(Succeed())
		Expect(env.Management().Start(ctx)).To(Succeed())
		Expect(env.PrepareManagement(ctx)).To(Succeed())
		for _, secret := range kept {
			Expect(env.Client().Create(ctx, secret)).To(Succeed())
		}
		Expect(env.Hub().Start(ctx)).To(Succeed())
		for name, id := range maps.All(ids) {
			Expect(env.Cluster(name).Register(ctx, "  clusterID: "+id)).To(Succeed())
		}
		for _, c := range env.Clusters() {
			Eventually(ctx, connected(c)).WithTimeout(slowEnd).Should(Succeed())
			Expect(record(ctx, c).Status.ClusterID).To(Equal(ids[c.Name()]))
			Expect(c.Operator().Starts()).To(Equal(starts[c.Name()]), "nobody had to touch the operator")
		}
	}, SpecTimeout(5*time.Minute))
})
