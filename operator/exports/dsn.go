// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"net"
	"net/url"

	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// schemes of connection strings.
var schemes = map[kubenestv1.AddonType]string{
	kubenestv1.AddonPostgres: "postgresql", kubenestv1.AddonMySQL: "mysql", kubenestv1.AddonMongoDB: "mongodb",
	kubenestv1.AddonRabbitMQ: "amqp", kubenestv1.AddonRedis: "redis",
}

// dsn is the connection string of the values. Each part is encoded, so that it can be
// anything.
func dsn(of kubenestv1.AddonType, values map[string]string) string {
	address := net.JoinHostPort(values[exportHost], values[exportPort])
	scheme, ok := schemes[of]
	if !ok {
		return address // kafka: a list of brokers
	}
	u := url.URL{Scheme: scheme, Host: address}
	username, password := values[exportUsername], values[exportPassword]
	switch {
	case password != "":
		u.User = url.UserPassword(username, password)
	case username != "":
		u.User = url.User(username)
	}
	text := u.String()
	database := values[exportDatabase]
	if of == kubenestv1.AddonRedis && database == "" {
		database = "0"
	}
	if of == kubenestv1.AddonRabbitMQ || (database == "" && of != kubenestv1.AddonMongoDB) {
		return text // without a path: RabbitMQ's is another virtual host
	}
	text += "/" + url.PathEscape(database)
	if of == kubenestv1.AddonMongoDB && username == conventions[of].administrator && password != "" {
		text += "?authSource=admin" // where the administrator is known
	}
	return text
}
