// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gittest serves Git repositories to tests: the real git on this machine's
// loopback, by https with a token and by ssh with a key.
package gittest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // what it warns of was mended in Go 1.6.3
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// The one who may read and write.
const (
	Username = "kubenest"
	Password = "a-token-that-nobody-may-see"
)

// Server serves the repositories in a folder. Close it.
type Server struct {
	// Dir holds the repositories.
	Dir string
	// CA is the certificate of the https server, in PEM form.
	CA []byte
	// SSHKey lets its holder in, and KnownHosts has the host's key.
	SSHKey, KnownHosts []byte

	git      string
	https    *httptest.Server
	listener net.Listener
	host     ssh.Signer
	guest    ssh.PublicKey
	mu       sync.Mutex
	before   func(service string)
	asked    atomic.Int64
	sessions sync.WaitGroup
}

// New starts a server for the repositories in a folder.
func New(dir string) (*Server, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	s := &Server{Dir: dir, git: git}
	backend := &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: dir,
		Stderr: io.Discard, // progress
		Env:    []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir},
	}
	s.https = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		if name != Username || subtle.ConstantTimeCompare([]byte(password), []byte(Password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		s.ask(r.Method, r.URL.Path)
		r.Header.Set("Remote-User", name)
		authorized := *backend
		authorized.Env = append([]string{"REMOTE_USER=" + name}, backend.Env...)
		authorized.ServeHTTP(w, r)
	}))
	s.https.StartTLS()
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.https.Certificate().Raw})
	if err := s.listenSSH(); err != nil {
		s.https.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) ask(method, path string) {
	s.asked.Add(1)
	if method != http.MethodPost {
		return
	}
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(filepath.Base(path))
	}
}

// Before has a function called before each fetch and push, with its service:
// git-upload-pack or git-receive-pack. It is for those by https.
func (s *Server) Before(do func(service string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = do
}

// Asked is the number of requests by https so far.
func (s *Server) Asked() int64 { return s.asked.Load() }

// Close stops the server.
func (s *Server) Close() {
	s.https.Close()
	_ = s.listener.Close()
	s.sessions.Wait()
}

// URL of a repository by https.
func (s *Server) URL(name string) string { return s.https.URL + "/" + name }

// SSHURL of a repository.
func (s *Server) SSHURL(name string) string {
	return "ssh://git@" + s.listener.Addr().String() + "/" + name
}

// FileURL of a repository.
func (s *Server) FileURL(name string) string { return "file://" + filepath.Join(s.Dir, name) }

// Credential for https, as SecretTypeGitCredential has it.
func (s *Server) Credential() map[string][]byte {
	return map[string][]byte{"username": []byte(Username), "password": []byte(Password), "caCert": s.CA}
}

// SSHCredential is the one for ssh.
func (s *Server) SSHCredential() map[string][]byte {
	return map[string][]byte{"sshPrivateKey": s.SSHKey, "knownHosts": s.KnownHosts}
}

// Create makes an empty repository.
func (s *Server) Create(ctx context.Context, name string) error {
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", name},
		{"-C", name, "config", "http.receivepack", "true"},
		{"-C", name, "config", "uploadpack.allowFilter", "true"},
	} {
		if _, err := s.Git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Git runs git in the folder of the repositories and gives its output.
func (s *Server) Git(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, nil, args...)
}

func (s *Server) run(ctx context.Context, in []byte, args ...string) (string, error) {
	command := exec.CommandContext(ctx, s.git, args...) //nolint:gosec // the tests' own arguments
	command.Dir = s.Dir
	command.Stdin = bytes.NewReader(in)
	command.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+s.Dir,
		"GIT_AUTHOR_NAME=somebody", "GIT_AUTHOR_EMAIL=somebody@example.com",
		"GIT_COMMITTER_NAME=somebody", "GIT_COMMITTER_EMAIL=somebody@example.com")
	var out, complaint bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// Commit writes a file to a branch in the name of somebody else; no content removes
// it.
func (s *Server) Commit(ctx context.Context, name, branch, file, content string) error {
	work, err := os.MkdirTemp(s.Dir, ".work-*")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if _, err := s.Git(ctx, "clone", "--quiet", filepath.Join(s.Dir, name), work); err != nil {
		return err
	}
	if _, err := s.Git(ctx, "-C", work, "checkout", "--quiet", "-B", branch, "origin/"+branch); err != nil {
		if _, err := s.Git(ctx, "-C", work, "checkout", "--quiet", "--orphan", branch); err != nil {
			return err
		}
	}
	path := filepath.Join(work, file)
	if content == "" {
		err = os.Remove(path)
	} else {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(content), 0o600))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	for _, args := range [][]string{
		{"-C", work, "add", "--all"},
		{"-C", work, "commit", "--quiet", "--message", "somebody's " + file},
		{"-C", work, "push", "--quiet", "origin", branch},
	} {
		if _, err := s.Git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Log is the messages' first lines on a branch, newest first.
func (s *Server) Log(ctx context.Context, name, branch string) ([]string, error) {
	out, err := s.Git(ctx, "-C", name, "log", "--format=%s", branch)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// Files are the paths on a branch.
func (s *Server) Files(ctx context.Context, name, branch string) ([]string, error) {
	out, err := s.Git(ctx, "-C", name, "ls-tree", "-r", "--name-only", branch)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// Show is a file's content on a branch.
func (s *Server) Show(ctx context.Context, name, branch, file string) (string, error) {
	return s.Git(ctx, "-C", name, "show", branch+":"+file)
}

func (s *Server) listenSSH() error {
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make host key: %w", err)
	}
	if s.host, err = ssh.NewSignerFromKey(hostKey); err != nil {
		return fmt.Errorf("make host key: %w", err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	s.SSHKey = pem.EncodeToMemory(block)
	if s.guest, err = ssh.NewPublicKey(public); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // a listener of a test
		return fmt.Errorf("listen for ssh: %w", err)
	}
	s.KnownHosts = []byte(knownhosts.Line([]string{s.listener.Addr().String()}, s.host.PublicKey()) + "\n")
	s.sessions.Go(s.acceptSSH)
	return nil
}
