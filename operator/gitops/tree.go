// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
	"github.com/kubenest/kubenest/operator/stack"
)

// snapshot is a branch's newest commit, with its trees. Files are compared by their
// hashes, so that nobody needs what is in them.
type snapshot struct {
	storage *memory.Storage
	// branch is where the branch is; zero if there is none.
	branch plumbing.Hash
	// base is the commit to build upon: the branch's, or the default branch's while
	// there is no such branch. Zero in an empty repository.
	base plumbing.Hash
	// from is the name of the default branch, where base is of it.
	from string
}

// edit makes new trees.
type edit struct {
	storage *memory.Storage
	// added are the objects that the repository may not have.
	added []plumbing.Hash
}

// replaceFolder gives the tree of root with a folder that holds exactly the files, or
// without it if there are none. What the folder held before must be owned, unless it
// was empty.
func (e *edit) replaceFolder(root plumbing.Hash, segments []string, files map[string][]byte, owner []byte) (plumbing.Hash, error) {
	entries, err := e.entries(root)
	if err != nil {
		return root, err
	}
	if len(segments) == 0 {
		if err := checkOwner(entries, owner); err != nil {
			return root, err
		}
		return e.folder(entries, files)
	}
	i := slices.IndexFunc(entries, func(t object.TreeEntry) bool { return t.Name == segments[0] })
	child := plumbing.ZeroHash
	if i >= 0 {
		if entries[i].Mode != filemode.Dir {
			return root, stack.Refuse(kubenestv1.ReasonObjectNotOurs, "%s in the repository is a file (or a link or submodule), where the App's folder belongs: choose another spec.gitops.path", segments[0])
		}
		child = entries[i].Hash
	}
	changed, err := e.replaceFolder(child, segments[1:], files, owner)
	if err != nil {
		return root, err
	}
	switch {
	case changed == child:
		return root, nil
	case changed.IsZero(): // git has no empty folders
		entries = slices.Delete(entries, i, i+1)
	case i >= 0:
		entries[i].Hash = changed
	default:
		entries = append(entries, object.TreeEntry{Name: segments[0], Mode: filemode.Dir, Hash: changed})
	}
	return e.tree(entries)
}

func (e *edit) entries(tree plumbing.Hash) ([]object.TreeEntry, error) {
	if tree.IsZero() {
		return nil, nil
	}
	t, err := object.GetTree(e.storage, tree)
	if err != nil {
		return nil, fmt.Errorf("read a folder of the repository: %w", err)
	}
	return slices.Clone(t.Entries), nil
}

// folder makes a tree of files. What was there is not added again.
func (e *edit) folder(before []object.TreeEntry, files map[string][]byte) (plumbing.Hash, error) {
	known := map[plumbing.Hash]bool{}
	for _, entry := range before {
		known[entry.Hash] = true
	}
	var entries []object.TreeEntry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		o := e.storage.NewEncodedObject()
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("write file %s: %w", name, err)
		}
		if _, err := w.Write(files[name]); err != nil {
			return plumbing.ZeroHash, fmt.Errorf("write file %s: %w", name, err)
		}
		hash := o.Hash()
		if !known[hash] {
			if hash, err = e.storage.SetEncodedObject(o); err != nil {
				return plumbing.ZeroHash, fmt.Errorf("write file %s: %w", name, err)
			}
			e.added = append(e.added, hash)
		}
		entries = append(entries, object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: hash})
	}
	return e.tree(entries)
}

func (e *edit) tree(entries []object.TreeEntry) (plumbing.Hash, error) {
	if len(entries) == 0 {
		return plumbing.ZeroHash, nil
	}
	sort.Sort(object.TreeEntrySorter(entries))
	return e.add(&object.Tree{Entries: entries})
}

// add stores an object that the repository may not have yet.
func (e *edit) add(o interface {
	Encode(plumbing.EncodedObject) error
},
) (plumbing.Hash, error) {
	encoded := e.storage.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write an object of the commit: %w", err)
	}
	hash := encoded.Hash()
	if e.storage.HasEncodedObject(hash) == nil {
		return hash, nil
	}
	if _, err := e.storage.SetEncodedObject(encoded); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("store an object of the commit: %w", err)
	}
	e.added = append(e.added, hash)
	return hash, nil
}

// pack is what is sent: the objects that were added.
func (e *edit) pack() ([]byte, error) {
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, e.storage, false).Encode(e.added, 0); err != nil {
		return nil, fmt.Errorf("pack the commit: %w", err)
	}
	return pack.Bytes(), nil
}

// errForeignFolder is turned into a Problem that names the folder.
var errForeignFolder = errors.New("the folder belongs to somebody else")

func checkOwner(entries []object.TreeEntry, owner []byte) error {
	if len(entries) == 0 {
		return nil
	}
	for _, entry := range entries {
		if entry.Name == ownerFile && entry.Hash == plumbing.ComputeHash(plumbing.BlobObject, owner) {
			return nil
		}
	}
	return errForeignFolder
}

// commitOf makes a commit of what a snapshot becomes with other files in a folder; nil
// where nothing changes.
func (s *snapshot) commitOf(c *change) (*edit, plumbing.Hash, error) {
	root := plumbing.ZeroHash
	if !s.base.IsZero() {
		base, err := object.GetCommit(s.storage, s.base)
		if err != nil {
			return nil, plumbing.ZeroHash, fmt.Errorf("read commit %s: %w", s.base, err)
		}
		root = base.TreeHash
	}
	e := &edit{storage: s.storage}
	tree, err := e.replaceFolder(root, strings.Split(c.at.folder, "/"), c.files, c.owner)
	if errors.Is(err, errForeignFolder) {
		return nil, plumbing.ZeroHash, stack.Refuse(kubenestv1.ReasonObjectNotOurs,
			"folder %s on branch %s of %s was there before and is not of this cluster's App: choose another spec.gitops.path (or branch) for this cluster, or remove the folder",
			c.at.folder, c.at.branch, c.at.url)
	}
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	if tree == root {
		return e, s.base, nil
	}
	if tree.IsZero() { // the last file of the repository went
		if tree, err = e.add(&object.Tree{}); err != nil {
			return nil, plumbing.ZeroHash, err
		}
	}
	commit := &object.Commit{Author: c.signature, Committer: c.signature, TreeHash: tree, Message: c.message}
	switch {
	case s.base.IsZero():
		commit.Message += "\n\nFirst commit of the repository.\n"
	case s.branch.IsZero():
		commit.Message += fmt.Sprintf("\n\nBranch %s begins here, from %s.\n", c.at.branch, s.from)
	}
	if !s.base.IsZero() {
		commit.ParentHashes = []plumbing.Hash{s.base}
	}
	hash, err := e.add(commit)
	return e, hash, err
}
