#!/usr/bin/env bash
# A server of etcd that asks clients for certificates serves its JSON gateway on the same port. Behind it the server calls
# itself, and shows its own certificate for that. If that one is good for servers only, as those of servers are, clients of
# gRPC are served, and whoever asks the gateway is told that etcd is not available, whatever certificate they have.
cd "$(dirname "$0")"
. ./etcd

certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
        -keyout "$FINDING/$1.key" -out "$FINDING/$1.csr" 2>/dev/null
    openssl x509 -req -days 2 -in "$FINDING/$1.csr" -CA "$FINDING/ca.pem" -CAkey "$FINDING/ca.key" -CAcreateserial \
        -extfile <(printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=%s\n' "$2") -out "$FINDING/$1.pem" 2>/dev/null
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
    -keyout "$FINDING/ca.key" -out "$FINDING/ca.pem" 2>/dev/null || unknown 'openssl makes no certificate'
certificate client clientAuth

# Asks the gateway of a server with a certificate for this use for a key, with the client's certificate, until the server says
# that it serves clients: asks USE PORT.
asks() {
    certificate "server$2" "$1"
    local url=https://127.0.0.1:$2 peer=http://127.0.0.1:$(($2 + 1))
    "$ETCD" --data-dir "$FINDING/data$2" --initial-cluster "default=$peer" --listen-peer-urls "$peer" \
        --initial-advertise-peer-urls "$peer" --listen-client-urls "$url" --advertise-client-urls "$url" --client-cert-auth \
        --trusted-ca-file "$FINDING/ca.pem" --cert-file "$FINDING/server$2.pem" --key-file "$FINDING/server$2.key" \
        >>"$FINDING/log$2" 2>&1 &
    python3 - "$FINDING" "$2" <<'PYTHON'
import json
import ssl
import sys
import time
import urllib.error
import urllib.request

folder, port = sys.argv[1:]
context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
context.load_cert_chain(f"{folder}/client.pem", f"{folder}/client.key")
for _ in range(300):
    request = urllib.request.Request(f"https://127.0.0.1:{port}/v3/kv/range", b'{"key": "YQ=="}')
    try:
        sys.exit(print("an answer" if "header" in json.load(urllib.request.urlopen(request, timeout=60, context=context)) else "?"))
    except urllib.error.HTTPError as refusal:
        # The gateway is there, and says that what is behind it is not.
        sys.exit(print(f"error {json.load(refusal)['code']} of gRPC (14: unavailable)"))
    except OSError:
        time.sleep(0.1)
print("no server")
PYTHON
}
is 'a server whose certificate is good for servers and clients' 'an answer' "$(asks serverAuth,clientAuth 2000)"
is 'a server whose certificate is good for servers' 'error 14 of gRPC (14: unavailable)' "$(asks serverAuth 2010)"
echo 'meaning: who uses the gateway with certificates needs servers whose certificates are good for clients too'
