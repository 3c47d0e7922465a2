// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// sshTransport is go-git's, but for the time that it takes at most: a host that
// accepts a connection and then is silent would hold everybody up.
type sshTransport struct {
	signer  ssh.Signer
	known   hostKeys
	timeout time.Duration
}

func newSSH(credential map[string][]byte, timeout time.Duration) (transport.Transport, error) {
	if len(credential[keySSHKey]) == 0 {
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "the repository is reached by ssh, and the Secret of spec.gitops.secretRef has no %s", keySSHKey)
	}
	if len(credential[keyKnownHosts]) == 0 {
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "the Secret of spec.gitops.secretRef has no %s: without the host's key nobody knows whether it is the right host. "+
			"Put there what 'ssh-keyscan' prints, after comparing it with what the host's owner publishes", keyKnownHosts)
	}
	known, err := parseKnownHosts(credential[keyKnownHosts])
	if err != nil {
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "%s of the git credential is not a known_hosts file: %v", keyKnownHosts, err)
	}
	signer, err := ssh.ParsePrivateKey(credential[keySSHKey])
	if err != nil {
		// The parser's words are left out: they may quote the key.
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "%s of the git credential is not a private key without a passphrase, in PEM form", keySSHKey)
	}
	return &sshTransport{signer: signer, known: known, timeout: timeout}, nil
}

// NewUploadPackSession implements transport.Transport.
func (t *sshTransport) NewUploadPackSession(e *transport.Endpoint, _ transport.AuthMethod) (transport.UploadPackSession, error) {
	return t.session(e, transport.UploadPackServiceName)
}

// NewReceivePackSession implements transport.Transport.
func (t *sshTransport) NewReceivePackSession(e *transport.Endpoint, _ transport.AuthMethod) (transport.ReceivePackSession, error) {
	return t.session(e, transport.ReceivePackServiceName)
}

func (t *sshTransport) session(e *transport.Endpoint, service string) (*sshSession, error) {
	port := e.Port
	if port == 0 {
		port = 22
	}
	address := net.JoinHostPort(strings.Trim(e.Host, "[]"), strconv.Itoa(port))
	// go-git gives no context here.
	conn, err := (&net.Dialer{Timeout: t.timeout}).Dial("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(t.timeout)); err != nil { // for all of it
		return nil, errors.Join(err, conn.Close())
	}
	user := e.User
	if user == "" {
		user = defaultUser
	}
	c, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(t.signer)},
		HostKeyCallback: t.known.check, HostKeyAlgorithms: t.known.algorithms(address),
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := &sshSession{client: ssh.NewClient(c, channels, requests)}
	if err := s.start(service + " " + quote(e.Path)); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

// quote for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sshSession runs one program of git at the host.
type sshSession struct {
	client *ssh.Client
	in     io.WriteCloser
	out    io.Reader
	said   complaint
	refs   *packp.AdvRefs
}

func (s *sshSession) start(command string) error {
	session, err := s.client.NewSession()
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	if s.in, err = session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = session.StdoutPipe(); err != nil {
		return err
	}
	session.Stderr = &s.said
	return session.Start(command)
}

// Close implements transport.Session.
func (s *sshSession) Close() error { return s.client.Close() }

// AdvertisedReferences implements transport.Session.
func (s *sshSession) AdvertisedReferences() (*packp.AdvRefs, error) { return s.advertised() }

// AdvertisedReferencesContext implements transport.Session. The connection has a
// deadline of its own.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	return s.advertised()
}

func (s *sshSession) advertised() (*packp.AdvRefs, error) {
	if s.refs != nil {
		return s.refs, nil
	}
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.out)
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return nil, transport.ErrEmptyRemoteRepository
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, fmt.Errorf("%w: %s", transport.ErrRepositoryNotFound, s.said.String())
	case err != nil:
		return nil, err
	case refs.IsEmpty() && !refs.Capabilities.Supports(capability.ReportStatus):
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	s.refs = refs
	return refs, nil
}

// UploadPack implements transport.UploadPackSession.
func (s *sshSession) UploadPack(_ context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := request.UploadRequest.Encode(s.in); err != nil {
		return nil, fmt.Errorf("ask for a pack: %w", err)
	}
	if err := pktline.NewEncoder(s.in).EncodeString("done\n"); err != nil {
		return nil, fmt.Errorf("ask for a pack: %w", err)
	}
	response := packp.NewUploadPackResponse(request)
	if err := response.Decode(io.NopCloser(s.out)); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return response, nil
}

// ReceivePack implements transport.ReceivePackSession.
func (s *sshSession) ReceivePack(_ context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if err := request.Encode(s.in); err != nil {
		return nil, fmt.Errorf("send the commit: %w", err)
	}
	if err := s.in.Close(); err != nil {
		return nil, fmt.Errorf("send the commit: %w", err)
	}
	report := packp.NewReportStatus()
	if err := report.Decode(s.out); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	err := report.Error()
	return report, err
}

// complaint keeps the beginning of what a host says on standard error.
type complaint struct {
	mu   sync.Mutex
	text []byte
}

func (c *complaint) Write(p []byte) (int, error) {
	const most = 512
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p[:min(len(p), most-len(c.text))]...)
	return len(p), nil
}

func (c *complaint) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(string(c.text))
}
