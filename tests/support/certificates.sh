# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# certificates.sh: CAs and identities for tests, by openssl(1). To be sourced. An operator's own PKI makes
# them in much the same way.

# make_ca DIR NAME: a CA in DIR.
make_ca() {
    mkdir -p "$1/new"
    : >"$1/index.txt"
    echo 01 >"$1/serial"
    echo 01 >"$1/crlnumber"
    cat >"$1/config" <<END
[ca]
default_ca = here
[here]
database = $1/index.txt
new_certs_dir = $1/new
serial = $1/serial
crlnumber = $1/crlnumber
certificate = $1/ca.crt
private_key = $1/ca.key
default_md = sha256
default_crl_days = 30
policy = any
unique_subject = no
[any]
commonName = supplied
END
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1/ca.key" -out "$1/ca.crt" \
        -subj "/CN=$2" -days 30 -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
}

# make_certificate DIR CA NAME [SUBJECT ALTERNATIVE NAMES] [FROM TO]: node.crt and node.key in DIR, signed by
# the CA in the directory CA. FROM and TO: YYYYMMDDHHMMSSZ.
make_certificate() {
    local dates=(-days 10)
    [ -z "${5:-}" ] || dates=(-startdate "$5" -enddate "$6")
    mkdir -p "$1/trust"
    chmod 700 "$1"
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1/node.key.new" \
        -out "$2/request" -subj "/CN=$3" 2>/dev/null
    printf 'subjectAltName = %s\nextendedKeyUsage = serverAuth, clientAuth\n' "${4:-DNS:$3}" >"$2/extensions"
    openssl ca -batch -notext -config "$2/config" -in "$2/request" -extfile "$2/extensions" \
        "${dates[@]}" -out "$1/node.crt.new" 2>"$2/log" || { cat "$2/log" >&2; return 1; }
    chmod 600 "$1/node.key.new"
    mv "$1/node.key.new" "$1/node.key"
    mv "$1/node.crt.new" "$1/node.crt"
}

# make_identity DIR CA NAME...: the same, and trusts the CA.
make_identity() {
    make_certificate "$@"
    cp "$2/ca.crt" "$1/trust/${2##*/}.crt"
}

# revoke CA CERTIFICATE CRL: and writes the list of all that are revoked.
revoke() {
    openssl ca -config "$1/config" -revoke "$2" 2>/dev/null
    openssl ca -config "$1/config" -gencrl -out "$3.new" 2>/dev/null
    mv "$3.new" "$3"
}
