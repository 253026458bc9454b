package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hotledger/hotledger/chassis/config"
)

const password = "S3cr3t%zz#@/:"

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	type holder struct {
		Password config.Secret
		Pointer  *config.Secret
		List     []config.Secret
		Map      map[string]config.Secret
	}
	secret := config.Secret(password)
	h := holder{secret, &secret, []config.Secret{secret}, map[string]config.Secret{"a": secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10.3s", "% x"} {
		fmt.Fprintf(&out, verb+"\n", secret)
		fmt.Fprintf(&out, verb+"\n", h)
		fmt.Fprintf(&out, verb+"\n", &h)
	}
	fmt.Fprintln(&out, secret, h, fmt.Errorf("open %v: %w", h, fmt.Errorf("%s", secret)))
	if err := json.NewEncoder(&out).Encode(h); err != nil {
		t.Fatal(err)
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), zap.DebugLevel)
	zap.New(core).Info("start", zap.Any("secret", secret), zap.Any("holder", h), zap.Stringer("s", secret), zap.Reflect("r", h))
	zap.New(core).Sugar().Infow("start", "secret", secret, "holder", h)
	slog.New(slog.NewTextHandler(&out, nil)).Info("start", "secret", secret, "holder", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("start", "secret", secret, "holder", h)

	if leak := strings.ToLower(out.String()); strings.Contains(leak, "s3cr3t") || strings.Contains(leak, fmt.Sprintf("%x", "S3cr3t")) {
		t.Fatalf("the secret is in\n%s", out.String())
	}
	if !strings.Contains(out.String(), "[redacted]") {
		t.Fatal("nothing says that a secret was left out")
	}
	if secret.Reveal() != password {
		t.Fatal("Reveal does not reveal")
	}
}

func TestSecretStaysOutOfErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, environ []string }{
		"flag":            {[]string{"--engine-password=" + password}, nil},
		"flag and value":  {[]string{"--engine-password", password}, nil},
		"argument":        {[]string{password}, nil},
		"address":         {nil, []string{"ENGINE_ADDRS=redis://u:" + password + "@h:1", "ENGINE_PASSWORD=" + password}},
		"misspelled key":  {nil, []string{"ENGINE_PASSWORT=" + password, "PROJECTOR_SECRET=" + password}},
		"misspelled flag": {[]string{"--engine-passwort=" + password}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(c.args, c.environ)
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "S3cr3t") {
				t.Fatalf("the secret is in %v", err)
			}
		})
	}
}
