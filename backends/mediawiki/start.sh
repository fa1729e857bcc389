# Makes the one account, 'App', from the environment, then serves the wiki.
set -eu
: "${WIKI_SECRET_KEY:?is not set}"
php maintenance/run.php createAndPromote --quiet --sysop App "${WIKI_PASSWORD:?is not set}"
export PHP_CLI_SERVER_WORKERS=4
exec php -S 0.0.0.0:8080 -t /var/lib/mediawiki
