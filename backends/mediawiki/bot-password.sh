# Makes a bot password for 'App' and prints it as JSON. MediaWiki takes none but 32 characters or more out of 0-9 and a-v.
# It may edit, move and delete pages, and nothing else: a protected page stays as it is.
set -eu
password=$(php -r 'echo bin2hex(random_bytes(16));')
php maintenance/run.php createBotPassword --quiet --appid mcp \
    --grants basic,highvolume,editpage,createeditmovepage,delete App "$password" >&2
printf '{"password": "%s"}\n' "$password"
