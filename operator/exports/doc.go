// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exports publishes what other components may use of an addon: addresses,
// credentials, connection strings.
//
// Of the types that kubenest knows it finds the Service and the credentials among what
// the chart has made: by the environment of its containers, by the names that charts
// commonly give to ports and to the keys of Secrets, and by the values. A name that is
// declared comes first. It never guesses between two candidates: it names both and
// asks for a declaration.
//
// The address is all of one kind. If one of host, port, dsn and brokers is external,
// all of them name the load balancer or the Ingress.
//
// Everything is read and written with the rights of the Project's ServiceAccount. The
// values are in one Secret; nothing else, and no error, has any of them.
package exports
