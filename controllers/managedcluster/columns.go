// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package managedcluster

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// columnsOf writes figures as kubectl prints them, nil where none is known. An
// unknown part is a question mark: "?/8".
func columnsOf(r *kubenestv1.ClusterResources) *kubenestv1.Columns {
	if r == nil {
		return nil
	}
	c := kubenestv1.Columns{
		CPU:    pair(r.CPUUsed, r.CPUTotal, cores),
		Memory: pair(r.MemUsed, r.MemTotal, gibibytes),
	}
	if c.Memory != "" {
		c.Memory += " Gi"
	}
	if c == (kubenestv1.Columns{}) {
		return nil
	}
	return &c
}

func pair(used, total *resource.Quantity, format func(*resource.Quantity) string) string {
	if used == nil && total == nil {
		return ""
	}
	return format(used) + "/" + format(total)
}

func cores(q *resource.Quantity) string {
	if q == nil {
		return "?"
	}
	return short(float64(q.MilliValue()) / 1000)
}

func gibibytes(q *resource.Quantity) string {
	if q == nil {
		return "?"
	}
	return short(float64(q.Value()) / (1 << 30))
}

// short has one decimal below 10 and none above, which is as much as a column
// can show and a person can use.
func short(f float64) string {
	if f >= 9.95 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	s := strconv.FormatFloat(f, 'f', 1, 64)
	if trimmed := s[:len(s)-2]; s[len(s)-1] == '0' {
		return trimmed
	}
	return s
}
