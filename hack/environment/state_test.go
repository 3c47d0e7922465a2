// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// assets makes a folder with a kube-apiserver that says a version.
func assets(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho Kubernetes " + version + "\n"
	if err := os.WriteFile(filepath.Join(dir, "kube-apiserver"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFolderIsLockedWhileInUse(t *testing.T) {
	g := NewWithT(t)
	o := &Options{Dir: filepath.Join(t.TempDir(), "state"), Assets: assets(t, "v1.37.2")}
	f, err := openFolder(t.Context(), o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.resumed).To(BeFalse())
	_, err = openFolder(t.Context(), o)
	g.Expect(err).To(MatchError(MatchRegexp(`runs in .* already, as process \d+: stop it`)))
	g.Expect(Reset(o.Dir)).To(MatchError(ContainSubstring("already")))
	g.Expect(os.WriteFile(f.path(listingFile), []byte("PID"), 0o600)).To(Succeed())
	g.Expect(Listing(o.Dir)).To(Equal("PID"))
	f.close()
	_, err = Listing(o.Dir)
	g.Expect(err).To(MatchError(ContainSubstring("no environment runs")))

	f, err = openFolder(t.Context(), o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.resumed).To(BeTrue())
	f.close()
	g.Expect(Reset(o.Dir)).To(Succeed())
	f, err = openFolder(t.Context(), o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.resumed).To(BeFalse())
	f.close()
}

func TestFolderOfAnotherVersionIsRefusedWithWhatToDo(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "state")
	open := func(version string) error {
		f, err := openFolder(t.Context(), &Options{Dir: dir, Assets: assets(t, version)})
		if err == nil {
			f.close()
		}
		return err
	}
	g.Expect(open("v1.37.2")).To(Succeed())
	g.Expect(open("v1.37.3")).To(Succeed())
	g.Expect(open("v1.36.9")).To(MatchError(And(ContainSubstring("another version"), ContainSubstring("make clean"))))
	g.Expect(os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o600)).To(Succeed())
	err := open("v1.37.2")
	g.Expect(err).To(MatchError(ContainSubstring("damaged")))
	g.Expect(err).To(MatchError(ErrReset))
}

func TestForeignFolderIsLeftAlone(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600)).To(Succeed())
	_, err := openFolder(t.Context(), &Options{Dir: dir, Assets: assets(t, "v1.37.2")})
	g.Expect(err).To(MatchError(ContainSubstring("thesis.txt")))
	g.Expect(Reset(dir)).To(MatchError(ContainSubstring("thesis.txt")))
}

func TestMountedSecretChangesAsAWhole(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "connection")
	g.Expect(mount(dir, map[string][]byte{"token": []byte("a"), "hub-url": []byte("b")})).To(Succeed())
	g.Expect(mount(dir, map[string][]byte{"token": []byte("c"), "hub-url": []byte("d")})).To(Succeed())
	for name, want := range map[string]string{"token": "c", "hub-url": "d"} {
		g.Expect(os.ReadFile(filepath.Join(dir, name))).To(Equal([]byte(want)))
		info, err := os.Stat(filepath.Join(dir, name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	}
	entries, err := os.ReadDir(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(4), "two keys, the link to the version, and the version")
}

func TestDefaultClusters(t *testing.T) {
	g := NewWithT(t)
	names := func(n int) []string {
		var all []string
		for _, c := range DefaultClusters(n) {
			all = append(all, c.Name)
		}
		return all
	}
	g.Expect(names(0)).To(BeEmpty())
	g.Expect(names(1)).To(Equal([]string{"dev"}))
	g.Expect(names(4)).To(Equal([]string{"dev", "prod", "cluster-3", "cluster-4"}))
}
