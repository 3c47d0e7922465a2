// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/kubenest/kubenest/api/wire"
	"github.com/kubenest/kubenest/hub/session"
	"github.com/kubenest/kubenest/hub/session/sessiontest"
	"github.com/kubenest/kubenest/hub/token"
)

// wantRefused opens a connection that has to be refused.
func (f *fixture) wantRefused(token string, status int, class wire.Class, change ...func(http.Header)) (*wire.Refusal, *http.Response) {
	f.t.Helper()
	ws, response, refusal := f.hub.Open(f.t.Context(), token, change...)
	f.Expect(ws).To(BeNil())
	f.Expect(refusal).To(HaveOccurred())
	f.Expect(response.StatusCode).To(Equal(status))
	f.Expect(refusal.Class).To(Equal(class))
	f.Expect(refusal.Message).NotTo(BeEmpty())
	f.Expect(response.Header.Get("Content-Type")).To(Equal("application/json"))
	f.Expect(response.Header.Get("Cache-Control")).To(Equal("no-store"))
	return refusal, response
}

func TestRefusalsBeforeTheUpgrade(t *testing.T) {
	for class, status := range map[wire.Class]int{
		wire.ClassUnauthorized: 401, wire.ClassNotYetValid: 401, wire.ClassExpired: 401, wire.ClassRevoked: 401,
		wire.ClassUnknownCluster: 401, wire.ClassConflict: 409, wire.ClassDuplicate: 409,
		wire.ClassUnsupported: 426, wire.ClassBusy: 503,
	} {
		t.Run(string(class), func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				f.authority.OnAuthenticate = func(context.Context, string) (session.Identity, error) {
					refusal := wire.Refuse(class, "because").After(1500 * time.Millisecond)
					return identity(cluster), fmt.Errorf("look up: %w", refusal)
				}
				refusal, response := f.wantRefused("SECRET", status, class)
				f.Expect(refusal.Message).To(Equal("because"))
				f.Expect(refusal.RetryAfter).To(BeEquivalentTo(1500))
				f.Expect(response.Header.Get("Retry-After")).To(Equal("2"), "rounded up: never too early")
				if status == 401 {
					f.Expect(response.Header.Get("WWW-Authenticate")).To(Equal("Bearer"))
				}

				f.Expect(f.metric("kubenest_hub_session_refusals_total", string(class), "")).To(BeEquivalentTo(1))
				f.Expect(f.log.String()).To(ContainSubstring(`"msg"="Connection refused"`))
				for _, part := range []string{`"class"="` + string(class), `"kid"="kid-1"`, `"jti"="jti-1"`, `"cluster"="cluster-1"`, `"source"="127.0.0.1"`, "because"} {
					f.Expect(f.log.String()).To(ContainSubstring(part))
				}
				f.Expect(f.log.String()).NotTo(ContainSubstring("SECRET"))
			})
		})
	}
}

func TestWhenTheHubCannotTellItIsBusy(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		f.authority.OnAuthenticate = func(context.Context, string) (session.Identity, error) {
			return session.Identity{}, errors.New("etcd is away")
		}
		refusal, response := f.wantRefused("t", 503, wire.ClassBusy)
		f.Expect(refusal.RetryAfter).To(BeNumerically("~", 3000, 1000))
		f.Expect(response.Header.Get("Retry-After")).NotTo(BeEmpty())
		f.Expect(refusal.Message).NotTo(ContainSubstring("etcd"), "that is the hub's own affair")
		f.Expect(f.log.String()).To(ContainSubstring("etcd is away"))
	})
}

func TestTokensThatDoNotVerifyGetOneAnswer(t *testing.T) {
	bubble(t, session.Options{Limits: session.Limits{}}, func(f *fixture) {
		ours, other, others := keyset(f, "hub/a"), keyset(f, "hub/b"), keyset(f, "hub/a")
		f.authority.OnAuthenticate = func(_ context.Context, bearer string) (session.Identity, error) {
			_, _, err := ours.Verify(bearer, time.Now())
			return session.Identity{}, err
		}
		authorization := func(values ...string) func(http.Header) {
			return func(h http.Header) { h["Authorization"] = values }
		}
		var answers []wire.Refusal
		for i, change := range []func(http.Header){
			func(h http.Header) { h.Del("Authorization") },
			authorization(""),
			authorization("Bearer"),
			authorization("Basic dXNlcjpwYXNz"),
			authorization("Bearer rubbish"),
			authorization("Bearer a.b.c"),
			authorization("Bearer "+minted(f, ours, "one"), "Bearer "+minted(f, ours, "one")),
			authorization("Bearer " + minted(f, other, "two")),
			authorization("Bearer " + minted(f, others, "three")),
			authorization("Bearer " + strings.Repeat("x", wire.MaxToken+1)),
		} {
			refusal, _ := f.wantRefused("", 401, wire.ClassUnauthorized, change, func(h http.Header) {
				h.Set("X-Forwarded-For", fmt.Sprint("not believed ", i))
			})
			answers = append(answers, *refusal)
			time.Sleep(time.Minute) // not to be slowed down
		}
		for _, answer := range answers {
			f.Expect(answer).To(Equal(answers[0]))
		}
		f.Expect(f.metric("kubenest_hub_session_refusals_total", "unauthorized", "malformed")).To(BeEquivalentTo(8), "the hub knows why")
		f.Expect(f.metric("kubenest_hub_session_refusals_total", "unauthorized", "unknown_key")).To(BeEquivalentTo(2))
		f.Expect(f.log.String()).To(ContainSubstring(`claimed cluster \"three\"`))
	})
}

func keyset(f *fixture, issuer string) *token.Keyset {
	kid, block, err := token.NewKey(time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	keys, err := token.Parse(issuer, map[string][]byte{kid + issuer[4:]: block})
	f.Expect(err).NotTo(HaveOccurred())
	return keys
}

func minted(f *fixture, keys *token.Keyset, clusterID string) string {
	minted, _, err := keys.Mint(clusterID, 1, time.Hour, time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	return minted.Reveal()
}

func TestRequestsOfOthers(t *testing.T) {
	set := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(key, value) }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		status int
		answer string
	}{
		"another method":      {func(r *http.Request) { r.Method = http.MethodPost }, 405, "GET only"},
		"a browser":           {set("Origin", "https://hub"), 403, "not for browsers"},
		"no upgrade":          {func(r *http.Request) { r.Header.Del("Upgrade") }, 426, "pass WebSocket upgrades on"},
		"no connection":       {set("Connection", "close"), 426, "pass WebSocket upgrades on"},
		"no subprotocol":      {func(r *http.Request) { r.Header.Del("Sec-Websocket-Protocol") }, 426, "speaks kubenest.v1"},
		"another subprotocol": {set("Sec-Websocket-Protocol", "kubenest.v0, mqtt"), 426, "speaks kubenest.v1"},
		"an old WebSocket":    {set("Sec-Websocket-Version", "8"), 400, "unsupported version"},
		"no key":              {set("Sec-Websocket-Key", "x"), 400, "can't become a WebSocket"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, session.Options{}, func(f *fixture) {
				r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://hub"+wire.Path, http.NoBody)
				f.Expect(err).NotTo(HaveOccurred())
				r.Header = http.Header{
					"Upgrade": {"websocket"}, "Connection": {"upgrade"}, "Sec-Websocket-Version": {"13"},
					"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}, "Sec-Websocket-Protocol": {wire.Subprotocol},
					"Authorization": {"Bearer " + f.token(cluster)},
				}
				tc.change(r)
				response, err := f.hub.Do(r)
				f.Expect(err).NotTo(HaveOccurred())
				defer response.Body.Close()
				f.Expect(response.StatusCode).To(Equal(tc.status))
				f.Expect(response).To(HaveHTTPBody(And(ContainSubstring(`"class":"unsupported"`), ContainSubstring(tc.answer))))
				f.Expect(f.registry.Len()).To(BeZero())
			})
		})
	}
}

func TestOnlyFailedAttemptsAreSlowed(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		reject := func(subject string) {
			f.authority.OnAuthenticate = func(context.Context, string) (session.Identity, error) {
				return session.Identity{}, &token.Rejection{Refusal: wire.Refuse(wire.ClassUnauthorized, "no"), Reason: token.ReasonSignature, Subject: subject}
			}
		}
		reject("claimed")
		for range session.DefaultLimits().Failures.Burst {
			f.wantRefused("t", 401, wire.ClassUnauthorized)
		}
		refusal, response := f.wantRefused("t", 429, wire.ClassUnauthorized)
		f.Expect(refusal.Message).To(Equal("no"), "it says no more than before")
		f.Expect(response.Header.Get("Retry-After")).To(Equal("30"))

		reject("another cluster behind the same NAT")
		f.wantRefused("t", 401, wire.ClassUnauthorized)

		f.authority.OnAuthenticate = nil
		f.connect(cluster)

		reject("claimed")
		f.wantRefused("t", 429, wire.ClassUnauthorized)
		time.Sleep(time.Minute)
		f.wantRefused("t", 401, wire.ClassUnauthorized)
	})
}

func TestStrangersCanNotFillTheLog(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		const attempts = 400
		for i := range attempts {
			f.authority.OnAuthenticate = func(context.Context, string) (session.Identity, error) {
				return session.Identity{}, &token.Rejection{Refusal: wire.Refuse(wire.ClassUnauthorized, "no"), Subject: fmt.Sprintf("claimed-%d", i)}
			}
			f.wantRefused("t", 401, wire.ClassUnauthorized)
		}
		f.Expect(strings.Count(f.log.String(), `"level"=0 "msg"="Connection refused"`)).To(And(
			BeNumerically(">", attempts/10), BeNumerically("<", attempts)))
		f.Expect(f.metric("kubenest_hub_session_refusals_total", "unauthorized", "")).To(BeEquivalentTo(attempts), "all are counted")
	})
}

func TestAClusterThatConnectsTooOftenHasToWait(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		for range session.DefaultLimits().Connections.Burst {
			f.connect(cluster)
		}
		refusal, _ := f.wantRefused(f.token(cluster), 503, wire.ClassBusy)
		f.Expect(refusal.Message).To(ContainSubstring("too often"))
		f.Expect(f.authority.Claims()).To(HaveLen(session.DefaultLimits().Connections.Burst), "it costs no claim")
		f.connect("cluster-2")
		time.Sleep(time.Duration(refusal.RetryAfter) * time.Millisecond)
		f.connect(cluster)
	})
}

func TestTrustedProxiesTellTheSource(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	bubble(t, session.Options{TrustedProxies: trusted}, func(f *fixture) {
		from := func(hop string) func(http.Header) {
			return func(h http.Header) { h.Set("X-Forwarded-For", hop) }
		}
		for range session.DefaultLimits().Failures.Burst {
			f.wantRefused("t", 401, wire.ClassUnauthorized, from("192.0.2.1"))
		}
		f.wantRefused("t", 429, wire.ClassUnauthorized, from("192.0.2.1"))
		f.wantRefused("t", 401, wire.ClassUnauthorized, from("192.0.2.2"))
		f.wantRefused("t", 429, wire.ClassUnauthorized, from("192.0.2.2, 192.0.2.1, 10.1.2.3"))
	})
}

func TestNotAccepting(t *testing.T) {
	bubble(t, session.Options{}, func(f *fixture) {
		held := f.connect(cluster)
		f.server.SetAccepting(false, "this replica can't reach its API server")
		refusal, response := f.wantRefused(f.token("cluster-2"), 503, wire.ClassBusy)
		f.Expect(refusal.Message).To(ContainSubstring("this replica can't reach its API server"))
		f.Expect(response.Header.Get("Retry-After")).NotTo(BeEmpty())
		f.Expect(held.Ended()).To(BeEmpty(), "sessions that are held stay")

		f.server.SetAccepting(false, "")
		f.wantRefused(f.token("cluster-2"), 503, wire.ClassBusy)
		f.server.SetAccepting(true, "")
		f.connect("cluster-2")
	})
}

func TestOpeningsAreBounded(t *testing.T) {
	limits := session.Limits{Openings: 2, Waiting: 1, WaitFor: 3 * time.Second}
	bubble(t, session.Options{Limits: limits}, func(f *fixture) {
		release := make(chan struct{})
		f.authority.OnClaim = func(context.Context, session.Claim) (int64, error) {
			<-release
			return 1, nil
		}
		results := make(chan error, 3)
		connect := func(id string) {
			go func() {
				_, err := f.hub.Connect(f.t.Context(), f.token(id), sessiontest.Hello())
				results <- err
			}()
			synctest.Wait()
		}
		connect("a")
		connect("b")
		connect("c") // waits
		begin := time.Now()
		f.wantRefused(f.token("d"), 503, wire.ClassBusy)
		f.Expect(time.Since(begin)).To(BeZero(), "the queue is full")

		var refusal *wire.Refusal
		f.Expect(errors.As(<-results, &refusal)).To(BeTrue())
		f.Expect(refusal.Class).To(Equal(wire.ClassBusy))
		f.Expect(time.Since(begin)).To(Equal(limits.WaitFor), "the one that waited")

		connect("e")
		close(release)
		for range 3 {
			f.Expect(<-results).To(Succeed())
		}
		f.connect("f")
	})
}

func TestOneClusterCanNotUseUpTheOpenings(t *testing.T) {
	bubble(t, session.Options{Limits: session.Limits{Openings: 10}}, func(f *fixture) {
		mute := f.token(cluster)
		for range session.DefaultLimits().OpeningsOfOne {
			ws, _, _ := f.hub.Open(f.t.Context(), mute)
			f.Expect(ws).NotTo(BeNil())
			f.t.Cleanup(func() { _ = ws.Close() })
		}
		refusal, _ := f.wantRefused(mute, 503, wire.ClassBusy)
		f.Expect(refusal.Message).To(ContainSubstring("this cluster"))
		f.connect("cluster-2")

		time.Sleep(wire.OpeningTimeout + wire.CloseTimeout)
		f.connect(cluster)
	})
}
