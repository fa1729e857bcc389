# start.sh FOLDER COMMAND...: makes the repositories that the suites work on, then becomes the command.
#   FOLDER/work            the only place that the server may touch; a repository itself
#   FOLDER/work/<name>     one for each case that changes something, so that no case sees another's changes
#   FOLDER/elsewhere       a repository outside of it
# A server that was started again in the same run finds them as its predecessor left them.
set -eu
folder=$1
shift

at() { # at DATE: of the next commits; fixed, so that the same commits have the same hashes everywhere
    export GIT_AUTHOR_DATE="$1" GIT_COMMITTER_DATE="$1"
}

repository() { # repository PATH: two commits on main, one more on topic, a tag and a remote branch
    git init --quiet --initial-branch=main "$1"
    cd "$1"
    at 2020-01-01T10:00:00+00:00
    printf '%s\n' one two three four five six seven eight nine ten >notes.txt
    mkdir docs
    echo '# Guide' >docs/guide.md
    git add .
    git commit --quiet --message='Start'
    git tag v1
    git update-ref refs/remotes/origin/main HEAD
    git checkout --quiet -b topic
    at 2020-06-01T10:00:00+00:00
    echo 'Größe' >topic.txt
    git add .
    git commit --quiet --message='Add a topic'
    git checkout --quiet main
    at 2021-06-15T12:30:00+02:00
    sed -i 's/^five$/FIVE/' notes.txt
    git commit --quiet --all --author='Zoë Ünal <zoe@example.org>' --message='Change five' --message='In capitals.'
}

change() { # change PATH: a repository with one file that was changed and one that is new
    repository "$1"
    sed -i 's/^two$/TWO/' notes.txt
    echo 'new' >new.txt
}

if [ ! -d "$folder/work" ]; then
    (
        repository "$folder/elsewhere"
        repository "$folder/making"
        repository "$folder/making/read"
        repository "$folder/making/branches"
        change "$folder/making/staging"
        change "$folder/making/commits"
        change "$folder/making/refusals"
        repository "$folder/making/merge"
        git merge --quiet --no-commit --no-ff topic
        mv "$folder/making" "$folder/work"
    ) >&2
fi
exec "$@"
