// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs serves the logs of a component's pods as one stream.
//
// # Rights
//
// Only namespaces that kubenest made for a Project are read, and with the rights of
// the Project's ServiceAccount.
//
// # Following
//
// Pods are watched, and each container that runs has a goroutine that reads its log.
// When a log ends though the container goes on (it was rotated, or the way to the
// kubelet broke), it is opened again and goes on after the line that was sent last;
// so is one that the hub resumes. What was sent last is known by the time that
// Kubernetes puts before each line, and by how many lines of that time were sent.
//
// # Flow
//
// What is read goes at once to the stream's writer, which waits for the hub; so a
// slow reader there makes the kubelet wait, and nothing gathers here. Each log has a
// connection of its own for that: over HTTP/2, megabytes would gather for each.
package logs
