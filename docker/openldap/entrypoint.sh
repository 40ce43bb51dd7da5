#!/bin/sh
# Runs a directory of sample people on ldaps. Its certificates and data are created at the first start and kept.
set -eu

here=$(dirname "$0")
data=${DATA:-/var/lib/ldap}
ca=${CA:-/directory-ca}
port=${PORT:-636}
name=${SERVER_NAME:-localhost}
schema=${SCHEMA:-/etc/ldap/schema}
modules=${MODULES:-/usr/lib/ldap}

if [ ! -s "$ca/ca.pem" ] || [ ! -s "$data/tls/server.pem" ]; then
  mkdir -p "$data/tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=Portaria sample directory CA' \
    -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign' \
    -keyout "$data/tls/ca.key" -out "$data/tls/ca.pem" 2>/dev/null
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
    -keyout "$data/tls/server.key" -out "$data/tls/server.csr" 2>/dev/null
  printf 'subjectAltName=DNS:%s,DNS:localhost\nextendedKeyUsage=serverAuth\n' "$name" > "$data/tls/server.ext"
  openssl x509 -req -days 3650 -in "$data/tls/server.csr" -extfile "$data/tls/server.ext" \
    -CA "$data/tls/ca.pem" -CAkey "$data/tls/ca.key" -CAcreateserial -out "$data/tls/server.pem" 2>/dev/null
  rm "$data/tls/ca.key"
  cp "$data/tls/ca.pem" "$ca/ca.pem"
  chmod 644 "$ca/ca.pem"
fi

cat > "$data/slapd.conf" <<CONF
include $schema/core.schema
include $schema/cosine.schema
include $schema/inetorgperson.schema
pidfile $data/slapd.pid
modulepath $modules
moduleload back_mdb
TLSCACertificateFile $data/tls/ca.pem
TLSCertificateFile $data/tls/server.pem
TLSCertificateKeyFile $data/tls/server.key
database mdb
suffix "dc=corp,dc=example"
directory $data/corp
maxsize 67108864
index objectClass,uid eq
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
CONF

if [ ! -s "$data/corp/data.mdb" ]; then
  mkdir -p "$data/corp"
  slapadd -f "$data/slapd.conf" -l "$here/people.ldif"
fi

# As root, run the server under the package's account; otherwise under the current one.
if [ "$(id -u)" = 0 ]; then
  chown -R openldap:openldap "$data"
  set -- -u openldap -g openldap
else
  set --
fi
exec slapd -d 0 "$@" -f "$data/slapd.conf" -h "ldaps://${LISTEN:-0.0.0.0}:$port"
