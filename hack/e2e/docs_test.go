// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// block is a fenced block of a page: what it is written in, and its text.
var block = regexp.MustCompile("(?s)\n```(sh|yaml)\n(.*?\n)```\n")

// script makes one shell script of a page: its sh blocks as they stand, its yaml
// blocks applied, in the order in which a reader meets them.
func script(page string) string {
	text, err := os.ReadFile(page)
	Expect(err).NotTo(HaveOccurred())
	var script strings.Builder
	script.WriteString("set -euo pipefail\n. .kubenest/env\n")
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		if b[1] == "yaml" {
			script.WriteString("kubectl apply -f - <<'END'\n" + b[2] + "END\n")
			continue
		}
		script.WriteString(b[2])
	}
	return script.String()
}

var _ = Describe("The documentation", func() {
	DescribeTable("holds examples that work, in the order in which they are read",
		func(ctx SpecContext, page string, examples int) {
			_, err := env.WriteShellEnv(ctx)
			Expect(err).NotTo(HaveOccurred())
			dir := GinkgoT().TempDir()
			Expect(os.Symlink(env.Dir(), filepath.Join(dir, ".kubenest"))).To(Succeed())

			config, err := filepath.Abs(filepath.Join("..", "..", "config"))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(config, filepath.Join(dir, "config"))).To(Succeed())

			page = filepath.Join("..", "..", filepath.FromSlash(page))
			script := script(page)
			Expect(block.FindAllString(read(page), -1)).To(HaveLen(examples), "a page that lost its examples is not tested")
			run := exec.CommandContext(ctx, "bash", "-x", "-c", script)
			run.Dir = dir
			output, err := run.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s", output)

			clean, err := env.Kubectl(ctx, "", "-n", "platform", "delete", "--ignore-not-found",
				"mc/shop-017", "mc/shop-018", "mc/shop-019", "project/retail", "project/blog", "project/shop")
			Expect(err).NotTo(HaveOccurred(), clean)
		},
		Entry("README", "README.md", 1),
		Entry("working with clusters", "docs/clusters.md", 9),
		Entry("working with Projects and Apps", "docs/apps.md", 7),
		Entry("the reference of clusters", "docs/reference/managedcluster.md", 1),
		Entry("the reference of Apps", "docs/reference/apps.md", 2),
	)

	It("links to files that exist", func() {
		link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
		pages, err := filepath.Glob("../../docs/*.md")
		Expect(err).NotTo(HaveOccurred())
		more, err := filepath.Glob("../../docs/*/*.md")
		Expect(err).NotTo(HaveOccurred())
		pages = append(append(pages, more...), "../../README.md", "../../CONTRIBUTING.md")
		links := 0
		for _, page := range pages {
			for _, l := range link.FindAllStringSubmatch(read(page), -1) {
				links++
				Expect(filepath.Join(filepath.Dir(page), l[1])).To(BeAnExistingFile(), page)
			}
		}
		Expect(links).To(BeNumerically(">", 20))
	})
})

func read(file string) string {
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
