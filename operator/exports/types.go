// Copyright 2026 The kubenest Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	kubenestv1 "github.com/kubenest/kubenest/api/v1alpha1"
)

// Names of the exports that known types have.
const (
	exportHost     = "host"
	exportPort     = "port"
	exportUsername = "username"
	exportPassword = "password"
	exportDatabase = "database"
	exportDSN      = "dsn"
	exportBrokers  = "brokers"
)

// convention is how charts of a type name things. Lists are in order of preference.
type convention struct {
	port      int32
	portNames []string
	// username of who may do everything, who there is without any other. Empty where
	// there is none.
	administrator string
	username      source
	// password of the administrator, and of others.
	adminPassword source
	userPassword  source
	database      source
	// defaultDatabase is used when none is found.
	defaultDatabase string
	hasDatabase     bool
	hasUser         bool
	// open: it may be without a password.
	open bool
}

// source is where a value may be found.
type source struct {
	env    []string   // of containers
	keys   []string   // of Secrets
	values [][]string // paths in the values
}

var conventions = map[kubenestv1.AddonType]*convention{
	kubenestv1.AddonPostgres: {
		port: 5432, portNames: []string{"postgresql", "postgres", "tcp-postgresql", "tcp-postgres"}, administrator: "postgres",
		username: source{
			env:    []string{"POSTGRES_USER", "POSTGRESQL_USERNAME", "POSTGRESQL_USER"},
			keys:   []string{"username", "user", "postgres-user", "POSTGRES_USER"},
			values: [][]string{{"auth", "username"}, {"global", "postgresql", "auth", "username"}, {"postgresqlUsername"}},
		},
		adminPassword: source{
			env:    []string{"POSTGRES_PASSWORD", "POSTGRESQL_PASSWORD", "POSTGRES_POSTGRES_PASSWORD"},
			keys:   []string{"postgres-password", "postgresql-password", "POSTGRES_PASSWORD", "password"},
			values: [][]string{{"auth", "postgresPassword"}, {"auth", "password"}},
		},
		userPassword: source{
			env:    []string{"POSTGRES_PASSWORD", "POSTGRESQL_PASSWORD"},
			keys:   []string{"password", "postgresql-password", "POSTGRES_PASSWORD"},
			values: [][]string{{"auth", "password"}},
		},
		database: source{
			env:    []string{"POSTGRES_DB", "POSTGRES_DATABASE", "POSTGRESQL_DATABASE"},
			keys:   []string{"database", "dbname", "POSTGRES_DB"},
			values: [][]string{{"auth", "database"}, {"global", "postgresql", "auth", "database"}, {"postgresqlDatabase"}},
		},
		defaultDatabase: "postgres", hasDatabase: true, hasUser: true,
	},
	kubenestv1.AddonMySQL: {
		port: 3306, portNames: []string{"mysql", "mariadb", "tcp-mysql"}, administrator: "root",
		username: source{
			env:    []string{"MYSQL_USER", "MARIADB_USER"},
			keys:   []string{"username", "user", "mysql-user", "MYSQL_USER"},
			values: [][]string{{"auth", "username"}, {"mysqlUser"}},
		},
		adminPassword: source{
			env:    []string{"MYSQL_ROOT_PASSWORD", "MARIADB_ROOT_PASSWORD"},
			keys:   []string{"mysql-root-password", "mariadb-root-password", "root-password", "MYSQL_ROOT_PASSWORD", "password"},
			values: [][]string{{"auth", "rootPassword"}},
		},
		userPassword: source{
			env:    []string{"MYSQL_PASSWORD", "MARIADB_PASSWORD"},
			keys:   []string{"mysql-password", "mariadb-password", "password", "MYSQL_PASSWORD"},
			values: [][]string{{"auth", "password"}},
		},
		database: source{
			env:    []string{"MYSQL_DATABASE", "MARIADB_DATABASE"},
			keys:   []string{"database", "mysql-database", "MYSQL_DATABASE"},
			values: [][]string{{"auth", "database"}, {"mysqlDatabase"}},
		},
		hasDatabase: true, hasUser: true,
	},
	kubenestv1.AddonMongoDB: {
		port: 27017, portNames: []string{"mongodb", "mongo", "tcp-mongodb"}, administrator: "root",
		username: source{
			env:    []string{"MONGODB_USERNAME", "MONGODB_EXTRA_USERNAMES"},
			keys:   []string{"username", "user", "mongodb-username"},
			values: [][]string{{"auth", "username"}, {"auth", "usernames"}},
		},
		adminPassword: source{
			env:    []string{"MONGODB_ROOT_PASSWORD", "MONGO_INITDB_ROOT_PASSWORD"},
			keys:   []string{"mongodb-root-password", "root-password", "MONGO_INITDB_ROOT_PASSWORD", "password"},
			values: [][]string{{"auth", "rootPassword"}},
		},
		userPassword: source{
			env:    []string{"MONGODB_PASSWORD", "MONGODB_EXTRA_PASSWORDS"},
			keys:   []string{"mongodb-password", "mongodb-passwords", "password"},
			values: [][]string{{"auth", "password"}, {"auth", "passwords"}},
		},
		database: source{
			env:    []string{"MONGODB_DATABASE", "MONGODB_EXTRA_DATABASES", "MONGO_INITDB_DATABASE"},
			keys:   []string{"database"},
			values: [][]string{{"auth", "database"}, {"auth", "databases"}},
		},
		defaultDatabase: "admin", hasDatabase: true, hasUser: true, open: true,
	},
	kubenestv1.AddonRabbitMQ: {
		port: 5672, portNames: []string{"amqp", "rabbitmq"}, administrator: "user",
		username: source{
			env:    []string{"RABBITMQ_USERNAME", "RABBITMQ_DEFAULT_USER"},
			keys:   []string{"username", "rabbitmq-username", "default_user"},
			values: [][]string{{"auth", "username"}},
		},
		adminPassword: source{
			env: []string{"RABBITMQ_PASSWORD", "RABBITMQ_DEFAULT_PASS"}, keys: []string{"rabbitmq-password", "password"},
			values: [][]string{{"auth", "password"}},
		},
		userPassword: source{
			env: []string{"RABBITMQ_PASSWORD", "RABBITMQ_DEFAULT_PASS"}, keys: []string{"rabbitmq-password", "password"},
			values: [][]string{{"auth", "password"}},
		},
		hasUser: true,
	},
	kubenestv1.AddonRedis: {
		port: 6379, portNames: []string{"redis", "tcp-redis", "valkey"},
		adminPassword: source{
			env: []string{"REDIS_PASSWORD", "REDIS_MASTER_PASSWORD"}, keys: []string{"redis-password", "password", "REDIS_PASSWORD"},
			values: [][]string{{"auth", "password"}, {"password"}},
		},
		defaultDatabase: "0", open: true,
	},
	kubenestv1.AddonKafka: {port: 9092, portNames: []string{"client", "tcp-client", "kafka", "plaintext", "tcp-kafka"}, open: true},
}
