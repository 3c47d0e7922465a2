// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"k8s.io/apimachinery/pkg/util/validation"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/delivery"
	"github.com/kubenest/kubenest/operator/stack"
)

const (
	defaultBranch = "main"
	// ownerFile says for whom a folder is. Argo CD reads no file of that name.
	ownerFile = ".kubenest"
)

// place is where a publication goes, checked.
type place struct {
	url, branch string
	// root is the cluster's folder, folder the App's. Both are clean and relative.
	root, folder string
	// clusterID is the part of the owner that all stacks of a cluster have.
	clusterID string
}

// key tells branches of repositories from each other.
func (p *place) key() string { return p.url + "#" + p.branch }

// ssh says whether the repository is reached by ssh.
func (p *place) ssh() bool {
	endpoint, err := transport.NewEndpoint(p.url)
	return err == nil && endpoint.Protocol == "ssh"
}

// placeOf checks a publication's way. Errors are Problems.
func placeOf(p *delivery.Publication, local bool) (*place, error) {
	at := &place{url: p.GitOps.RepoURL, branch: p.GitOps.Branch}
	if at.branch == "" {
		at.branch = defaultBranch
	}
	if err := checkURL(at.url, local); err != nil {
		return nil, err
	}
	if err := checkBranch(at.branch); err != nil {
		return nil, err
	}
	root, err := cleanPath(p.GitOps.Path)
	if err != nil {
		return nil, err
	}
	at.root = root
	for _, segment := range []string{p.Target.Project.Namespace, p.Target.Namespace, p.Target.App} {
		// Names of Kubernetes: no slash, and no dots at the ends.
		if problems := validation.IsDNS1123Subdomain(segment); len(problems) > 0 {
			return nil, stack.Refuse(kubenestv1.ReasonInvalid, "%q is not a name, so that it can not be a folder: %s", segment, problems[0])
		}
		root = path.Join(root, segment)
	}
	at.folder = root
	clusterID, _, found := strings.Cut(p.Target.Owner, "/")
	if !found || clusterID == "" {
		return nil, stack.Refuse(kubenestv1.ReasonInvalid, "StackDeploy %s has no source, so that nothing can be published for it", p.Stack)
	}
	at.clusterID = clusterID
	return at, nil
}

// checkURL takes https and ssh without credentials, and files for tests.
func checkURL(address string, local bool) error {
	const want = "spec.gitops.repoURL of the ManagedCluster has to be https://<host>/<path>, ssh://git@<host>/<path> or git@<host>:<path>"
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return stack.Refuse(kubenestv1.ReasonInvalid, "%s, without spaces", want)
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret || u.Scheme != "ssh" {
			return stack.Refuse(kubenestv1.ReasonInvalid, "%s: no credentials in it, where everybody reads them; "+
				"put them into a Secret of type %s and name it in spec.gitops.secretRef", want, kubenestv1.SecretTypeGitCredential)
		}
	}
	endpoint, err := transport.NewEndpoint(address)
	switch {
	case err != nil:
		return stack.Refuse(kubenestv1.ReasonInvalid, "%s", want) // the error may quote credentials
	case local && endpoint.Protocol == "file":
		return nil
	case endpoint.Protocol != "https" && endpoint.Protocol != "ssh", endpoint.Host == "", endpoint.Password != "":
		return stack.Refuse(kubenestv1.ReasonInvalid, "%s", want)
	case strings.HasPrefix(endpoint.Host, "-"), strings.HasPrefix(endpoint.Path, "-"):
		return stack.Refuse(kubenestv1.ReasonInvalid, "%s, and no part of it begins with a dash", want)
	}
	return nil
}

// checkBranch holds the rules of git for the names of branches.
func checkBranch(branch string) error {
	bad := strings.ContainsFunc(branch, func(r rune) bool { return r <= ' ' || strings.ContainsRune("~^:?*[\\\x7f", r) }) ||
		strings.Contains(branch, "..") || strings.Contains(branch, "@{") || branch == "@" ||
		strings.HasPrefix(branch, "-") || strings.HasPrefix(branch, "refs/") || strings.HasSuffix(branch, ".")
	for segment := range strings.SplitSeq(branch, "/") {
		bad = bad || segment == "" || strings.HasPrefix(segment, ".") || strings.HasSuffix(segment, ".lock")
	}
	if bad {
		return stack.Refuse(kubenestv1.ReasonInvalid, "spec.gitops.branch of the ManagedCluster is %q, which git does not take as a branch's name", branch)
	}
	return nil
}

// cleanPath takes relative paths that stay in the repository and out of .git.
func cleanPath(p string) (string, error) {
	for segment := range strings.SplitSeq(p, "/") {
		if segment == ".." || strings.EqualFold(segment, ".git") || strings.ContainsFunc(segment, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) {
			return "", stack.Refuse(kubenestv1.ReasonInvalid, "spec.gitops.path of the ManagedCluster is %q: it has to be a folder inside the repository, such as clusters/prod", p)
		}
	}
	clean := strings.TrimPrefix(path.Clean("/"+p), "/")
	return clean, nil
}

// projectObject names what all Apps of a Project share at Argo CD.
func projectObject(key kubenestv1.ProjectKey) string {
	return named(key.Namespace+"-"+key.Name, key.Namespace+"/"+key.Name)
}

// applicationName names the Application of a stack.
func applicationName(t *stack.Target) string {
	return named(t.Namespace+"-"+t.App, t.Owner)
}

// named makes a name that a person recognises and nobody else has. Labels take it.
func named(readable, unique string) string {
	const prefix = "kubenest-"
	sum := sha256.Sum256([]byte(unique))
	suffix := "-" + hex.EncodeToString(sum[:5])
	readable = strings.ReplaceAll(readable, ".", "-")
	if room := validation.DNS1123LabelMaxLength - len(prefix) - len(suffix); len(readable) > room {
		readable = readable[:room]
	}
	return prefix + strings.TrimRight(readable, "-") + suffix
}

// message cuts what others say to what a status takes.
func message(format string, args ...any) string {
	const most = 1000
	text := strings.Join(strings.Fields(strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
