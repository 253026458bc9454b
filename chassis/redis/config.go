// Package redis builds the one Redis client of a process, each option with its reason; refuses a Redis that would
// evict balances; and says which errors leave the outcome unknown.
package redis

import (
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/hotledger/hotledger/chassis/config"
)

// Config says where Redis is: one server, a Cluster, or the Sentinels that know the master.
type Config struct {
	Addrs            []string      `env:"REDIS_ADDRS" envDefault:"localhost:6379" help:"host:port of the server, of some nodes of a Cluster, or of the Sentinels"`
	Cluster          bool          `env:"REDIS_CLUSTER" envDefault:"false" help:"REDIS_ADDRS is a Cluster; implied by two or more addresses without REDIS_MASTER_NAME"`
	MasterName       string        `env:"REDIS_MASTER_NAME" help:"the master's name in Sentinel; set, REDIS_ADDRS are Sentinels"`
	Username         string        `env:"REDIS_USERNAME" help:"ACL user; empty = the default user"`
	Password         config.Secret `env:"REDIS_PASSWORD" help:"password of the user"`
	SentinelUsername string        `env:"REDIS_SENTINEL_USERNAME" help:"ACL user at the Sentinels"`
	SentinelPassword config.Secret `env:"REDIS_SENTINEL_PASSWORD" help:"password at the Sentinels"`
	TLS              bool          `env:"REDIS_TLS" envDefault:"false" help:"encrypt connections; the server's certificate is checked"`
	CAFile           string        `env:"REDIS_CA_FILE" help:"PEM file of the authority that signed the servers' certificates; empty = the system's"`
	Timeout          time.Duration `env:"REDIS_TIMEOUT" envDefault:"3s" help:"patience for a connection, a write, and an answer, each; longer than the longest script"`
	PoolSize         int           `env:"REDIS_POOL_SIZE" envDefault:"16" help:"connections per server, at most; a shard uses two"`
}

const (
	timeoutMin = 10 * time.Millisecond
	timeoutMax = time.Minute
	poolMax    = 1024
)

// Validate reports all problems, each naming its key.
func (c Config) Validate() error {
	problems := []error{config.CheckAddrs("REDIS_ADDRS", c.Addrs)}
	if c.MasterName != "" && c.Cluster {
		problems = append(problems, errors.New("REDIS_CLUSTER: a Cluster has no REDIS_MASTER_NAME; set one of the two"))
	}
	if c.MasterName == "" && (c.SentinelUsername != "" || c.SentinelPassword != "") {
		problems = append(problems, errors.New("REDIS_MASTER_NAME: is missing, but a user or password for Sentinel is set"))
	}
	if c.Username != "" && c.Password == "" {
		problems = append(problems, errors.New("REDIS_PASSWORD: is missing for REDIS_USERNAME"))
	}
	if c.CAFile != "" && !c.TLS {
		problems = append(problems, errors.New("REDIS_CA_FILE: is of no use without REDIS_TLS=true"))
	}
	if c.Timeout < timeoutMin || c.Timeout > timeoutMax {
		problems = append(problems, fmt.Errorf("REDIS_TIMEOUT: %s is not within %s..%s", c.Timeout, timeoutMin, timeoutMax))
	}
	if c.PoolSize < 1 || c.PoolSize > poolMax {
		problems = append(problems, fmt.Errorf("REDIS_POOL_SIZE: %d is not within 1..%d", c.PoolSize, poolMax))
	}
	return errors.Join(problems...)
}

// NewClient builds a client for one server, a Cluster or Sentinel. It does not connect: an unreachable server shows at
// the first command. The caller closes it.
func NewClient(cfg Config) (goredis.UniversalClient, error) {
	opts, err := options(cfg)
	if err != nil {
		return nil, err
	}
	client := goredis.NewUniversalClient(opts)
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		cluster.AddHook(slotMap{cluster})
	}
	return client, nil
}

func options(cfg Config) (*goredis.UniversalOptions, error) {
	opts := &goredis.UniversalOptions{
		Addrs:            cfg.Addrs,
		IsClusterMode:    cfg.Cluster,
		MasterName:       cfg.MasterName,
		Username:         cfg.Username,
		Password:         cfg.Password.Reveal(),
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword.Reveal(),

		// RESP3, said aloud: it is also the default, but replies of scripts differ between the two.
		Protocol: 3,

		// -1 is "never"; 0 would be "three times". After a lost answer the script may have run: whether it is sent
		// again, and with which head, is decided by the protocol of the shard and not by the client library.
		MaxRetries: -1,
		// A Cluster client re-sends within its redirects too, after a timeout just as after MOVED. So none. A MOVED
		// still refreshes the map of slots, comes back as a transient error, and our own retry goes to the right node.
		MaxRedirects: -1,
		// One try per dial (0 would be five): retries belong to the one backoff policy.
		DialerRetries: 1,

		// Explicit, for the defaults have changed between versions (3 s to 5 s in 9.22).
		DialTimeout:  cfg.Timeout,
		ReadTimeout:  cfg.Timeout,
		WriteTimeout: cfg.Timeout,
		// A deadline or cancellation of the caller's context ends a command; off by default.
		ContextTimeoutEnabled: true,

		PoolSize: cfg.PoolSize,
		// A little longer than a command may hold a connection, so that the pool is not blamed for a slow server.
		PoolTimeout: cfg.Timeout + time.Second,
		// Connections that a firewall may have forgotten are not used: their first command would time out, unknown.
		ConnMaxIdleTime: 5 * time.Minute,

		// CLIENT SETINFO does not exist before Redis 7.2, and would cost a round trip per connection.
		DisableIdentity: true,
		// Hand-over notices exist on Redis Enterprise alone; asking for them costs a failing command per connection.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if cfg.TLS {
		tlsConfig, err := config.TLS("REDIS_CA_FILE", cfg.CAFile)
		if err != nil {
			return nil, err
		}
		opts.TLSConfig = tlsConfig
	}
	return opts, nil
}
