// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// row of the table. The floor is what the same costs without kubenest; the measure
// or a note says what that is.
type row struct{ measure, floor, kubenest, ratio, goal string }

// none stands where there is nothing to measure.
const none = "–"

// compared makes a row of two numbers.
func compared(measure string, floor, kubenest float64, show func(float64) string) row {
	r := row{measure: measure, floor: show(floor), kubenest: show(kubenest), ratio: none, goal: none}
	if floor > 0 {
		r.ratio = fmt.Sprintf("%.2f", kubenest/floor)
	}
	return r
}

// alone makes a row of a number that only kubenest has.
func alone(measure, value string) row {
	return row{measure: measure, floor: none, kubenest: value, ratio: none, goal: none}
}

func kilobytes(n float64) string  { return fmt.Sprintf("%.1f KB", n/(1<<10)) }
func perSecond(n float64) string  { return fmt.Sprintf("%.0f", n) }
func seconds(n float64) string    { return fmt.Sprintf("%.1f s", n) }
func millis(n float64) string     { return fmt.Sprintf("%.0f ms", n*1000) }
func micros(n float64) string     { return fmt.Sprintf("%.1f µs", n/float64(time.Microsecond)) }
func percent(n float64) string    { return fmt.Sprintf("%.1f %%", n) }
func perCluster(n float64) string { return fmt.Sprintf("%.4f", n) }

// write prints rows with aligned columns, as Markdown does.
func write(out io.Writer, rows []row) {
	lines := [][]string{{"measure", "floor", "kubenest", "ratio", "goal"}}
	for _, r := range rows {
		lines = append(lines, []string{r.measure, r.floor, r.kubenest, r.ratio, r.goal})
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, line := range lines {
		cells := make([]string, len(line))
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cells[i] = cell + gap
			} else {
				cells[i] = gap + cell
			}
		}
		_, _ = fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) // a broken pipe is the reader's wish
		if n == 0 {
			for i := range cells {
				cells[i] = strings.Repeat("-", widths[i])
				if i > 0 {
					cells[i] = cells[i][1:] + ":"
				}
			}
			_, _ = fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}
