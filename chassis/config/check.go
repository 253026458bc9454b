package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// CheckAddrs refuses an empty list and entries that are not host:port with a port of 1..65535. The message names key and the entry's
// number, never the entry: somebody may have written a URL with a password in it.
func CheckAddrs(key string, addrs []string) error {
	if len(addrs) == 0 {
		return fmt.Errorf("%s: want at least one host:port", key)
	}
	var problems []error
	for i, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		n, numErr := strconv.Atoi(port)
		if err != nil || numErr != nil || host == "" || n < 1 || n > 65535 {
			problems = append(problems, fmt.Errorf("%s: entry %d is not host:port (credentials have keys of their own)", key, i+1))
		}
	}
	return errors.Join(problems...)
}
