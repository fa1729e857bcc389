# Makes the one account, 'app', from the environment, then becomes Radicale.
set -eu
umask 077
printf 'app:%s\n' "${RADICALE_PASSWORD:?is not set}" >/run/radicale/users
exec radicale --config /etc/radicale/config
