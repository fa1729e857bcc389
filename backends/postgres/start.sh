# Gives the role 'app' its password from the environment, then becomes PostgreSQL.
set -eu
printf "ALTER ROLE app PASSWORD '%s'\n" "${PGPASSWORD:?is not set}" | postgres --single -c exit_on_error=on postgres >/dev/null
# The data live as long as the container: nothing is gained by waiting for the disk.
exec postgres -c listen_addresses='*' -c fsync=off -c full_page_writes=off
