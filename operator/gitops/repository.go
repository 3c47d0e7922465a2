// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/file"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// Keys of a git credential, as SecretTypeGitCredential describes them.
const (
	keyUsername   = "username"
	keyPassword   = "password"
	keySSHKey     = "sshPrivateKey"
	keyKnownHosts = "knownHosts"
	keyCA         = "caCert"
	// defaultUser is told where there is only a token: hosts ask for some name.
	defaultUser = "git"
)

// repository is a remote one. Close it.
type repository struct {
	endpoint  *transport.Endpoint
	transport transport.Transport
	auth      transport.AuthMethod
	timeout   time.Duration
	most      int64
	close     func()
	// secret is not to be said.
	secret string
}

// scrub takes the credential out of what a server said.
func (r *repository) scrub(text string) string {
	if r.secret == "" {
		return text
	}
	return strings.ReplaceAll(text, r.secret, "…")
}

// open prepares the way to a repository. Errors are Problems, and hold nothing of
// the credential.
func (o *Options) open(address string, credential map[string][]byte) (*repository, error) {
	endpoint, err := transport.NewEndpoint(address)
	if err != nil {
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "spec.gitops.repoURL of the ManagedCluster is not a repository's address")
	}
	r := &repository{endpoint: endpoint, timeout: o.Timeout, most: o.MaxFetch, close: func() {}}
	switch endpoint.Protocol {
	case "file":
		r.transport = file.DefaultClient
	case "ssh":
		r.transport, err = newSSH(credential, o.Timeout)
	default:
		err = r.openHTTPS(credential)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *repository) openHTTPS(credential map[string][]byte) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := credential[keyCA]; len(ca) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(ca) {
			return stack.Refuse(kubenestv1.ReasonInvalid, "%s of the git credential holds no certificate in PEM form", keyCA)
		}
		config.RootCAs = roots
	}
	if password := credential[keyPassword]; len(password) > 0 {
		r.secret = strings.TrimSpace(string(password))
		r.auth = &githttp.BasicAuth{Username: username(credential), Password: r.secret}
	}
	way := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true, ResponseHeaderTimeout: r.timeout}
	r.close = way.CloseIdleConnections
	// A redirect would carry the token elsewhere.
	r.transport = githttp.NewClientWithOptions(&http.Client{Transport: way}, &githttp.ClientOptions{RedirectPolicy: githttp.NoFollowRedirects})
	return nil
}

func username(credential map[string][]byte) string {
	if name := strings.TrimSpace(string(credential[keyUsername])); name != "" {
		return name
	}
	return defaultUser
}

// position says where a branch is. It reads no objects.
func (r *repository) position(ctx context.Context, branch string) (plumbing.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	session, err := r.transport.NewUploadPackSession(r.endpoint, r.auth)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer func() { _ = session.Close() }()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return plumbing.ZeroHash, nil
	}
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return refs.References[plumbing.NewBranchReferenceName(branch).String()], nil
}

// fetch reads a branch's newest commit and its trees, and no history. Files are left
// out where the server can do that.
func (r *repository) fetch(ctx context.Context, branch string) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	session, err := r.transport.NewUploadPackSession(r.endpoint, r.auth)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	s := &snapshot{storage: memory.NewStorage()}
	refs, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.branch = refs.References[plumbing.NewBranchReferenceName(branch).String()]
	s.base = s.branch
	if s.base.IsZero() && refs.Head != nil {
		s.base, s.from = *refs.Head, headName(refs)
	}
	if s.base.IsZero() {
		return s, nil
	}
	request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	request.Wants = []plumbing.Hash{s.base}
	if refs.Capabilities.Supports(capability.Shallow) {
		request.Depth = packp.DepthCommits(1)
		_ = request.Capabilities.Set(capability.Shallow) // takes no value
	}
	if refs.Capabilities.Supports(capability.Filter) {
		request.Filter = packp.FilterBlobNone()
		_ = request.Capabilities.Set(capability.Filter)
	}
	// The pack comes as it is, and what the server says meanwhile is not shown.
	request.Capabilities.Delete(capability.Sideband)
	request.Capabilities.Delete(capability.Sideband64k)
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Close() }()
	return s, r.unpack(response, s.storage)
}

// headName is the name of the default branch.
func headName(refs *packp.AdvRefs) string {
	for _, symref := range refs.Capabilities.Get(capability.SymRef) {
		if target, found := strings.CutPrefix(symref, "HEAD:refs/heads/"); found {
			return target
		}
	}
	return "the default branch"
}

func (r *repository) unpack(response io.Reader, storage *memory.Storage) error {
	bound := &bound{left: r.most}
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(&bounded{response, bound}), storage, bound)
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if _, err := parser.Parse(); err != nil {
		if bound.left < 0 {
			return errTooLarge
		}
		return fmt.Errorf("read pack: %w", err)
	}
	return nil
}

var errTooLarge = errors.New("the repository is too large")

// push moves a branch from what it was to a new commit.
func (r *repository) push(ctx context.Context, branch string, from, to plumbing.Hash, pack []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	session, err := r.transport.NewReceivePackSession(r.endpoint, r.auth)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		refs, err = packp.NewAdvRefs(), nil
		_ = refs.Capabilities.Set(capability.ReportStatus) // what every server can
	}
	if err != nil {
		return err
	}
	name := plumbing.NewBranchReferenceName(branch)
	if now := refs.References[name.String()]; now != from {
		return errMoved
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(refs.Capabilities)
	request.Commands = []*packp.Command{{Name: name, Old: from, New: to}}
	request.Packfile = io.NopCloser(bytes.NewReader(pack))
	_, err = session.ReceivePack(ctx, request)
	return err
}

// errMoved: somebody else has pushed meanwhile.
var errMoved = errors.New("the branch has moved")

// bound counts what a pack holds, as it is sent and unpacked.
type bound struct{ left int64 }

func (b *bound) take(n int64) error {
	if b.left -= n; b.left < 0 {
		return errTooLarge
	}
	return nil
}

// OnHeader implements packfile.Observer.
func (b *bound) OnHeader(uint32) error { return b.take(0) }

// OnInflatedObjectHeader implements packfile.Observer.
func (b *bound) OnInflatedObjectHeader(_ plumbing.ObjectType, size, _ int64) error {
	return b.take(size)
}

// OnInflatedObjectContent implements packfile.Observer. What a delta makes is known
// only here.
func (b *bound) OnInflatedObjectContent(_ plumbing.Hash, _ int64, _ uint32, content []byte) error {
	return b.take(int64(len(content)))
}

// OnFooter implements packfile.Observer.
func (b *bound) OnFooter(plumbing.Hash) error { return nil }

type bounded struct {
	reader io.Reader
	bound  *bound
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	if full := b.bound.take(int64(n)); full != nil {
		return n, full
	}
	return n, err
}
