# Makes the one account, 'app', from the environment, then becomes nginx.
set -eu
umask 077
printf 'app:{PLAIN}%s\n' "${PROXY_PASSWORD:?is not set}" >/run/proxy/users
sed "s/@XANDIKOS@/${PROXY_TARGET:?is not set}/" /usr/local/lib/proxy/nginx.conf >/run/proxy/nginx.conf
exec nginx -c /run/proxy/nginx.conf
