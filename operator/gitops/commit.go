// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// change is what one commit does to one folder.
type change struct {
	at *place
	// files of the folder; none to remove it.
	files map[string][]byte
	// owner is the content of the folder's ownerFile.
	owner     []byte
	message   string
	signature object.Signature
}

const (
	// A push that somebody else was faster than is tried again this often, after
	// waits of random length up to these.
	maxPushes = 8
	firstWait = 100 * time.Millisecond
	lastWait  = 3 * time.Second
)

// commit brings a change to the branch, and says whether it was not there before. The
// caller has the turn.
func (o *Options) commit(ctx context.Context, r *repository, b *branch, c *change) (bool, error) {
	wait := firstWait
	for try := 1; ; try++ {
		changed, err := o.try(ctx, r, b, c)
		if err == nil || !o.worthAnother(ctx, r, c, err) {
			return changed, o.problem(r, c.at, err)
		}
		if try == maxPushes {
			return false, stack.Wait(kubenestv1.ReasonGitFailed, "somebody else pushed to branch %s of %s each of %d times before this could: it is tried again", c.at.branch, c.at.url, try)
		}
		timer := time.NewTimer(rand.N(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		case <-timer.C:
		}
		wait = min(2*wait, lastWait)
	}
}

// try fetches, commits on top of it, and pushes.
func (o *Options) try(ctx context.Context, r *repository, b *branch, c *change) (bool, error) {
	s, err := r.fetch(ctx, c.at.branch)
	if err != nil {
		return false, err
	}
	b.looked = time.Now()
	b.see(s.branch, plumbing.ZeroHash)
	edit, commit, err := s.commitOf(c)
	if err != nil || commit == s.branch {
		return false, err
	}
	pack, err := edit.pack()
	if err != nil {
		return false, err
	}
	if err := r.push(ctx, c.at.branch, s.branch, commit, pack); err != nil {
		return false, &pushError{base: s.branch, err: err}
	}
	b.see(commit, s.branch)
	return true, nil
}

// pushError is a push that was refused, or of which no answer came.
type pushError struct {
	base plumbing.Hash
	err  error
}

func (e *pushError) Error() string { return e.err.Error() }

func (e *pushError) Unwrap() error { return e.err }

// worthAnother says whether a push failed because the branch moved. Servers say that
// in many words, so the branch itself is asked. It has moved, too, if the push worked
// and its answer was lost: then the next try finds nothing to do.
func (o *Options) worthAnother(ctx context.Context, r *repository, c *change, err error) bool {
	if errors.Is(err, errMoved) {
		return true
	}
	failed, ok := errors.AsType[*pushError](err)
	if !ok || ctx.Err() != nil {
		return false
	}
	now, err := r.position(ctx, c.at.branch)
	return err == nil && now != failed.base
}

// problem turns what went wrong into words for people.
func (o *Options) problem(r *repository, at *place, err error) error {
	if err == nil {
		return nil
	}
	if problem, ok := errors.AsType[*stack.Problem](err); ok {
		return problem
	}
	if wrapped, ok := errors.AsType[*plumbing.UnexpectedError](err); ok { // which hides what is in it
		if _, pushed := errors.AsType[*pushError](err); pushed {
			err = &pushError{err: wrapped.Err}
		} else {
			err = wrapped.Err
		}
	}
	var what string
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired):
		what = "the repository asks for a credential, or refuses this one: check the Secret of spec.gitops.secretRef"
	case errors.Is(err, transport.ErrAuthorizationFailed):
		what = "the credential is not allowed to do that: it has to read and write the repository"
	case errors.Is(err, transport.ErrRepositoryNotFound):
		what = "there is no such repository, or the credential is not allowed to see it"
	case errors.Is(err, errTooLarge):
		return stack.Refuse(kubenestv1.ReasonGitFailed, "branch %s of %s is too large (over %d MiB without its history): use a repository of its own for what kubenest commits",
			at.branch, at.url, o.MaxFetch>>20)
	case errors.Is(err, errUnknownHost), strings.Contains(err.Error(), errUnknownHost.Error()):
		what = "the host shows a key that knownHosts of the git credential does not have: compare it with what the host's owner publishes before it is added"
	case strings.Contains(err.Error(), "ssh: unable to authenticate"):
		what = "the host does not take the SSH key: add its public part there, with leave to write"
	case strings.Contains(err.Error(), "no common algorithm for host key"):
		what = "the host has no key of the kind that knownHosts of the git credential has"
	case isCertificate(err):
		what = "the repository's certificate is not trusted: put its authority into caCert of the git credential (" + message("%v", err) + ")"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		what = "the repository did not answer within " + o.Timeout.String()
	default:
		what = message("%v", err)
	}
	what = r.scrub(what)
	if refused, ok := errors.AsType[*pushError](err); ok {
		return stack.Refuse(kubenestv1.ReasonGitFailed, "push to branch %s of %s: %s", at.branch, at.url, refusal(refused, what))
	}
	return stack.Refuse(kubenestv1.ReasonGitFailed, "reach branch %s of %s: %s", at.branch, at.url, what)
}

// refusal adds what to do where a server forbids the branch.
func refusal(e *pushError, what string) string {
	if strings.Contains(e.err.Error(), "hook declined") || strings.Contains(e.err.Error(), "protected") {
		return what + " (the branch is protected: let the credential's owner push to it, or name another branch)"
	}
	return what
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

func isCertificate(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	return unverified || unknown || name || strings.Contains(err.Error(), "x509:")
}
