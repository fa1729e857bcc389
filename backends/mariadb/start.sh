# Makes the databases and their user, 'app', with the password from the environment, then becomes MariaDB.
set -eu
umask 077
cat >/run/mysqld/init.sql <<SQL
CREATE DATABASE app;
CREATE DATABASE archive;
CREATE USER app@'%' IDENTIFIED BY '${MYSQL_PWD:?is not set}';
GRANT ALL ON app.* TO app@'%';
GRANT ALL ON archive.* TO app@'%';
SQL
# The data live as long as the container: nothing is gained by waiting for the disk.
# No TLS either: from 11.4 on each start would make a certificate, which takes seconds.
exec mariadbd --init-file=/run/mysqld/init.sql --bind-address=0.0.0.0 --skip-name-resolve --skip-ssl \
    --character-set-server=utf8mb4 --collation-server=utf8mb4_general_ci --innodb-flush-log-at-trx-commit=0
